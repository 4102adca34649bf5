/**
 * Objects that the API server accepts and the parser rejects, as under CRDs of another version: here those of this
 * project and of the Gateway API with any `spec` at all. The status of each must report it, for a controller that has
 * read a valid version of it and for one that has not, and no object that was created for it may be deleted.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type ControlPlane, startControlPlane } from "../rig/control-plane.ts";
import { type Cluster, clusterOf, describeCluster, eventually, type KubeObject } from "./support/cluster.ts";
import { type ControllerProcess, startController } from "./support/controller-process.ts";
import { defineKinds } from "./support/global-setup.ts";

const group = "gateway.networking.k8s.io";

interface RejectedKind {
  readonly kind: string;
  readonly resource: string;
  /** A valid `spec`, and a field that the parser rejects. */
  readonly spec: string;
  readonly invalidFields: object;
  readonly expected: readonly [reason: string, message: string];
}

const listeners = "[{name: http, port: 80, protocol: HTTP}]";
const limits = "{rateLimit: {local: [{requests: 1, unit: Minutes}]}}";

const rejectedKinds: readonly RejectedKind[] = [
  {
    kind: "GatewayClass",
    resource: "gatewayclass",
    spec: "{controllerName: gatewayproxy.dev/controller}",
    invalidFields: { description: 7 },
    expected: ["InvalidParameters", "spec.description"],
  },
  {
    kind: "Gateway",
    resource: "gateway",
    spec: `{gatewayClassName: valid, listeners: ${listeners}}`,
    invalidFields: { addresses: "everywhere" },
    expected: ["Invalid", "spec.addresses"],
  },
  {
    kind: "ListenerSet",
    resource: "listenerset",
    spec: "{parentRef: {name: valid}, listeners: [{name: more, port: 81, protocol: HTTP}]}",
    invalidFields: { listeners: "many" },
    expected: ["Invalid", "spec.listeners"],
  },
  {
    kind: "HTTPRoute",
    resource: "httproute",
    spec: "{parentRefs: [{name: valid}]}",
    invalidFields: { rules: "none" },
    expected: ["UnsupportedValue", "spec.rules"],
  },
  {
    kind: "BackendTLSPolicy",
    resource: "backendtlspolicy",
    spec: '{targetRefs: [{group: "", kind: Service, name: api}], validation: {hostname: api.test, wellKnownCACertificates: System}}',
    invalidFields: { validation: "lax" },
    expected: ["Invalid", "spec.validation"],
  },
  {
    kind: "ProxyPolicy",
    resource: "proxypolicy",
    spec: `{targetRefs: [{group: ${group}, kind: HTTPRoute, name: valid}], traffic: ${limits}}`,
    invalidFields: { traffic: "less" },
    expected: ["Invalid", "spec.traffic"],
  },
  {
    kind: "Backend",
    resource: "backend",
    spec: "{static: {host: api.test, port: 80}}",
    invalidFields: { static: "somewhere" },
    expected: ["Invalid", "spec.static"],
  },
];

function manifest(kind: string, name: string, spec: string): string {
  const isOurs = kind === "ProxyPolicy" || kind === "Backend";
  const apiVersion = isOurs ? "gatewayproxy.dev/v1alpha1" : `${group}/v1`;
  const namespace = kind === "GatewayClass" ? "" : ", namespace: tenant";
  return `
apiVersion: ${apiVersion}
kind: ${kind}
metadata: {name: ${name}${namespace}}
spec: ${spec}
---`;
}

/** Objects that are never rejected: a Gateway with a route to a Service, and objects that refer to rejected ones. */
const valid = [
  manifest("GatewayClass", "valid", "{controllerName: gatewayproxy.dev/controller}"),
  manifest(
    "Gateway",
    "valid",
    `{gatewayClassName: valid, listeners: ${listeners}, allowedListeners: {namespaces: {from: Same}}}`,
  ),
  manifest("HTTPRoute", "valid", "{parentRefs: [{name: valid}], rules: [{backendRefs: [{name: api, port: 443}]}]}"),
  manifest("Gateway", "of-rejected-class", `{gatewayClassName: rejected, listeners: ${listeners}}`),
  manifest("HTTPRoute", "of-rejected-gateway", "{parentRefs: [{name: rejected}]}"),
  "\napiVersion: v1\nkind: Service\nmetadata: {name: api, namespace: tenant}\nspec: {ports: [{port: 443}]}\n",
].join("");

describeCluster("under definitions of another version", () => {
  let plane: ControlPlane;
  let cluster: Cluster;
  let controller: ControllerProcess;
  const start = () => startController({ kubeconfig: plane.kubeconfig, namespace: "tenant" });
  const namespaceOf = ({ kind }: RejectedKind) => (kind === "GatewayClass" ? undefined : "tenant");
  const acceptedOf = (each: RejectedKind, accepts: (condition: Accepted | undefined) => boolean) =>
    eventually(async () => accepted(await cluster.get(`${each.resource}/rejected`, namespaceOf(each))), accepts);

  beforeAll(async () => {
    plane = await startControlPlane();
    cluster = clusterOf(plane.kubeconfig);
    await defineKinds(plane.kubeconfig);
    await allowAnySpec(cluster);
    await cluster.kubectl(["create", "namespace", "tenant"]);
    await cluster.apply(
      valid + "---" + rejectedKinds.map(({ kind, spec }) => manifest(kind, "rejected", spec)).join(""),
    );
    controller = await start();
    for (const each of rejectedKinds) await acceptedOf(each, (condition) => condition?.status === "True");
    for (const each of rejectedKinds) {
      const home = each.kind === "GatewayClass" ? [] : ["-n", "tenant"];
      const patch = JSON.stringify({ spec: each.invalidFields });
      await cluster.kubectl(["patch", `${each.resource}/rejected`, ...home, "--type=merge", "-p", patch]);
    }
  });

  afterAll(async () => {
    await controller.stop("SIGKILL");
    await plane.stop();
  });

  describe.each(["that has read its valid version", "that has not"])("a controller %s", (which) => {
    let deployments: string;
    beforeAll(async () => {
      deployments = await deploymentsOf(cluster);
      if (which === "that has read its valid version") return;
      await controller.stop();
      controller = await start();
      // Its last statuses are written.
      await eventually(
        () => fetch(controller.metrics).then((response) => response.text()),
        (text) => text.includes("gateway_proxy_controller_leader 1"),
      );
      await new Promise((resolve) => setTimeout(resolve, 3_000));
    });

    test.each(rejectedKinds)("reports that a $kind is rejected, and why", async (each) => {
      const [reason, message] = each.expected;
      const condition = await acceptedOf(each, (found) => found?.status === "False");
      expect(condition).toMatchObject({ reason, observedGeneration: 2 });
      expect(condition?.message).toContain(message);
    });

    test("reports the status of a route of a rejected Gateway", async () => {
      const route = await cluster.get("httproute/of-rejected-gateway", "tenant");
      const condition =
        which === "that has not"
          ? { status: "False", reason: "NoMatchingParent", message: "the Gateway is not accepted" }
          : { status: "True", reason: "Accepted" };
      expect(accepted(route)).toMatchObject(condition);
    });

    test("does not change the proxies of rejected Gateways, and of Gateways of a rejected class", async () => {
      expect(deployments.split("\n")).toHaveLength(3);
      expect(await deploymentsOf(cluster)).toBe(deployments);
    });
  });
});

interface Accepted {
  readonly status: string;
  readonly reason: string;
  readonly message: string;
  readonly observedGeneration?: number;
}

interface StatusFields {
  readonly conditions?: readonly (Accepted & { readonly type: string })[];
}

/** The condition Accepted of an object, or of its first parent or ancestor. */
function accepted({ status }: KubeObject): Accepted | undefined {
  const all = (status ?? {}) as StatusFields & {
    readonly parents?: readonly StatusFields[];
    readonly ancestors?: readonly StatusFields[];
  };
  const { conditions } = (all.parents ?? all.ancestors)?.[0] ?? all;
  return conditions?.find(({ type }) => type === "Accepted");
}

/** Names, UIDs and generations. */
async function deploymentsOf(cluster: Cluster): Promise<string> {
  const each = 'jsonpath={range .items[*]}{.metadata.name} {.metadata.uid} {.metadata.generation}{"\\n"}{end}';
  return (await cluster.kubectl(["get", "deployments", "-n", "tenant", "-o", each])).trim();
}

/** Removes the schema of `spec` from every CRD. */
async function allowAnySpec(cluster: Cluster): Promise<void> {
  const { items } = JSON.parse(await cluster.kubectl(["get", "crds", "-o", "json"])) as {
    readonly items: readonly {
      spec: { versions: { schema: { openAPIV3Schema: { properties: { spec: object } } } }[] };
    }[];
  };
  for (const { spec } of items) {
    for (const { schema } of spec.versions) {
      schema.openAPIV3Schema.properties.spec = { type: "object", "x-kubernetes-preserve-unknown-fields": true };
    }
  }
  await cluster.kubectl(["replace", "-f", "-"], JSON.stringify({ apiVersion: "v1", kind: "List", items }));
}
