/**
 * Objects that the API server takes and the parser refuses, as under definitions of another version: here those of our
 * kinds and the Gateway API's with any `spec` at all. Each must say so, to a controller that has seen a sound version of
 * it and to one that has not, and nothing that stands for it may go.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type ControlPlane, startControlPlane } from "../rig/control-plane.ts";
import { type Cluster, clusterOf, describeCluster, eventually, type KubeObject } from "./support/cluster.ts";
import { type ControllerProcess, startController } from "./support/controller-process.ts";
import { applyDefinitions } from "./support/global-setup.ts";

const group = "gateway.networking.k8s.io";

interface Refused {
  readonly kind: string;
  readonly resource: string;
  /** A sound `spec`, and a field of it that is refused. */
  readonly spec: string;
  readonly fault: object;
  readonly says: readonly [reason: string, message: string];
}

const listeners = "[{name: http, port: 80, protocol: HTTP}]";
const limits = "{rateLimit: {local: [{requests: 1, unit: Minutes}]}}";

const refused: readonly Refused[] = [
  {
    kind: "GatewayClass",
    resource: "gatewayclass",
    spec: "{controllerName: gatewayproxy.dev/controller}",
    fault: { description: 7 },
    says: ["InvalidParameters", "spec.description"],
  },
  {
    kind: "Gateway",
    resource: "gateway",
    spec: `{gatewayClassName: sound, listeners: ${listeners}}`,
    fault: { addresses: "everywhere" },
    says: ["Invalid", "spec.addresses"],
  },
  {
    kind: "ListenerSet",
    resource: "listenerset",
    spec: "{parentRef: {name: sound}, listeners: [{name: more, port: 81, protocol: HTTP}]}",
    fault: { listeners: "many" },
    says: ["Invalid", "spec.listeners"],
  },
  {
    kind: "HTTPRoute",
    resource: "httproute",
    spec: "{parentRefs: [{name: sound}]}",
    fault: { rules: "none" },
    says: ["UnsupportedValue", "spec.rules"],
  },
  {
    kind: "BackendTLSPolicy",
    resource: "backendtlspolicy",
    spec: '{targetRefs: [{group: "", kind: Service, name: api}], validation: {hostname: api.test, wellKnownCACertificates: System}}',
    fault: { validation: "lax" },
    says: ["Invalid", "spec.validation"],
  },
  {
    kind: "ProxyPolicy",
    resource: "proxypolicy",
    spec: `{targetRefs: [{group: ${group}, kind: HTTPRoute, name: sound}], traffic: ${limits}}`,
    fault: { traffic: "less" },
    says: ["Invalid", "spec.traffic"],
  },
  {
    kind: "Backend",
    resource: "backend",
    spec: "{static: {host: api.test, port: 80}}",
    fault: { static: "somewhere" },
    says: ["Invalid", "spec.static"],
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

/** Of what is never refused: a Gateway with a route to a Service, and what belongs to a refused object. */
const sound = [
  manifest("GatewayClass", "sound", "{controllerName: gatewayproxy.dev/controller}"),
  manifest(
    "Gateway",
    "sound",
    `{gatewayClassName: sound, listeners: ${listeners}, allowedListeners: {namespaces: {from: Same}}}`,
  ),
  manifest("HTTPRoute", "sound", "{parentRefs: [{name: sound}], rules: [{backendRefs: [{name: api, port: 443}]}]}"),
  manifest("Gateway", "of-refused-class", `{gatewayClassName: refused, listeners: ${listeners}}`),
  manifest("HTTPRoute", "of-refused-gateway", "{parentRefs: [{name: refused}]}"),
  "\napiVersion: v1\nkind: Service\nmetadata: {name: api, namespace: tenant}\nspec: {ports: [{port: 443}]}\n",
].join("");

describeCluster("under definitions of another version", () => {
  let plane: ControlPlane;
  let cluster: Cluster;
  let controller: ControllerProcess;
  const start = () => startController({ kubeconfig: plane.kubeconfig, namespace: "tenant" });
  const namespaceOf = ({ kind }: Refused) => (kind === "GatewayClass" ? undefined : "tenant");
  const acceptedOf = (each: Refused, accepts: (condition: Accepted | undefined) => boolean) =>
    eventually(async () => accepted(await cluster.get(`${each.resource}/refused`, namespaceOf(each))), accepts);

  beforeAll(async () => {
    plane = await startControlPlane();
    cluster = clusterOf(plane.kubeconfig);
    await applyDefinitions(plane.kubeconfig);
    await takeAnySpec(cluster);
    await cluster.kubectl(["create", "namespace", "tenant"]);
    await cluster.apply(sound + "---" + refused.map(({ kind, spec }) => manifest(kind, "refused", spec)).join(""));
    controller = await start();
    for (const each of refused) await acceptedOf(each, (condition) => condition?.status === "True");
    for (const each of refused) {
      const home = each.kind === "GatewayClass" ? [] : ["-n", "tenant"];
      const patch = JSON.stringify({ spec: each.fault });
      await cluster.kubectl(["patch", `${each.resource}/refused`, ...home, "--type=merge", "-p", patch]);
    }
  });

  afterAll(async () => {
    await controller.stop("SIGKILL");
    await plane.stop();
  });

  describe.each(["that has seen its sound version", "that has not"])("a controller %s", (which) => {
    let deployments: string;
    beforeAll(async () => {
      deployments = await deploymentsOf(cluster);
      if (which === "that has seen its sound version") return;
      await controller.stop();
      controller = await start();
      // Its last word on all of them.
      await eventually(
        () => fetch(controller.metrics).then((response) => response.text()),
        (text) => text.includes("gateway_proxy_controller_leader 1"),
      );
      await new Promise((resolve) => setTimeout(resolve, 3_000));
    });

    test.each(refused)("says that a $kind is refused, and why", async (each) => {
      const [reason, message] = each.says;
      const condition = await acceptedOf(each, (found) => found?.status === "False");
      expect(condition).toMatchObject({ reason, observedGeneration: 2 });
      expect(condition?.message).toContain(message);
    });

    test("leaves no route of a refused Gateway without a word", async () => {
      const route = await cluster.get("httproute/of-refused-gateway", "tenant");
      const condition =
        which === "that has not"
          ? { status: "False", reason: "NoMatchingParent", message: "the Gateway is not accepted" }
          : { status: "True", reason: "Accepted" };
      expect(accepted(route)).toMatchObject(condition);
    });

    test("leaves the proxies of refused Gateways, and of those of a refused class, as they are", async () => {
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

interface Judged {
  readonly conditions?: readonly (Accepted & { readonly type: string })[];
}

/** The condition Accepted of an object, or of its first parent or ancestor. */
function accepted({ status }: KubeObject): Accepted | undefined {
  const all = (status ?? {}) as Judged & {
    readonly parents?: readonly Judged[];
    readonly ancestors?: readonly Judged[];
  };
  const { conditions } = (all.parents ?? all.ancestors)?.[0] ?? all;
  return conditions?.find(({ type }) => type === "Accepted");
}

/** Names and identities. */
async function deploymentsOf(cluster: Cluster): Promise<string> {
  const each = 'jsonpath={range .items[*]}{.metadata.name} {.metadata.uid} {.metadata.generation}{"\\n"}{end}';
  return (await cluster.kubectl(["get", "deployments", "-n", "tenant", "-o", each])).trim();
}

/** What a definition says of `spec` is forgotten. */
async function takeAnySpec(cluster: Cluster): Promise<void> {
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
