/**
 * The effects of a tenant on others through the controller: a user with write access to Gateways, routes and ConfigMaps
 * in one namespace only, against a controller with the permissions of `deploy/rbac/controller.yaml`.
 */
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type ControlPlane, startControlPlane } from "../rig/control-plane.ts";
import { kubeconfigOf } from "./support/accounts.ts";
import { type Cluster, clusterOf, describeCluster, eventually } from "./support/cluster.ts";
import { type ControllerProcess, type ControllerSetup, startController } from "./support/controller-process.ts";
import { defineKinds } from "./support/global-setup.ts";

const system = "gateway-proxy-system";
const rbacFolder = join(import.meta.dirname, "..", "..", "deploy", "rbac");

/** A permission without a grant must be removed after this time. */
const removalMs = 2_000;

describeCluster("a tenant", () => {
  let plane: ControlPlane;
  let cluster: Cluster;
  let setup: ControllerSetup;
  let controller: ControllerProcess;

  beforeAll(async () => {
    plane = await startControlPlane({ controllers: true });
    cluster = clusterOf(plane.kubeconfig);
    await defineKinds(plane.kubeconfig);
    await cluster.apply(setting + certificate(plane));
    await plane.kubectl(["apply", "-f", rbacFolder]);
    setup = {
      kubeconfig: await kubeconfigOf(plane, system, "gateway-proxy-controller"),
      namespace: system,
      args: ["--proxy-service-type", "ClusterIP"],
    };
    controller = await startController(setup);
  });

  afterAll(async () => {
    await controller.stop();
    await plane.stop();
  });

  /** As the tenant of a namespace, with the permissions of an application developer there. */
  async function applyAs(tenant: string, manifests: string): Promise<void> {
    await plane.kubectl(["apply", "--server-side", "--as", tenant, "-n", tenant, "-f", "-"], manifests);
  }

  /** Whether the proxies of a Gateway may read a Secret or a ConfigMap. */
  async function mayRead(gateway: string, object: string, plural = "secrets"): Promise<boolean> {
    const [namespace = "", name = ""] = gateway.split("/");
    const [place = "", own = ""] = object.split("/");
    const account = `system:serviceaccount:${namespace}:${name}-gateway-proxy`;
    const args = ["auth", "can-i", "list", `${plural}/${own}`, "-n", place, "--as", account];
    return plane.kubectl(args).then(
      (response) => response.trim() === "yes",
      (error: unknown) => {
        // kubectl responds "no" with a failure.
        if (String(error).includes("no")) return false;
        throw error;
      },
    );
  }

  const refNotPermitted = (parent: string) => ({
    status: {
      parents: expect.arrayContaining([
        expect.objectContaining({
          parentRef: expect.objectContaining({ name: parent }) as unknown,
          conditions: expect.arrayContaining([
            expect.objectContaining({ type: "ResolvedRefs", status: "False", reason: "RefNotPermitted" }),
          ]) as unknown,
        }),
      ]) as unknown,
    },
  });

  test("gets no permission for another's Secret by a reference to a Backend, as a backend or as a mirror", async () => {
    const mirror = `
    - filters: [{type: RequestMirror, requestMirror: {backendRef: ${victimsBackend}}}]
      matches: [{path: {value: /mirror}}]`;
    await applyAs(
      "attacker",
      gateway("gw") + route("steal", "{name: gw}", `{backendRefs: [${victimsBackend}]}`, mirror),
    );
    // Statuses are written after the roles.
    await cluster.becomes("httproute/steal", "attacker", refNotPermitted("gw"));
    await cluster.becomes("serviceaccount/gw-gateway-proxy", "attacker", {});
    expect(await mayRead("attacker/gw", "victim/openai-key")).toBe(false);
    expect(
      await plane.kubectl([
        "get",
        "roles,rolebindings",
        "-n",
        "victim",
        "-o",
        "name",
        "-l",
        "gatewayproxy.dev/gateway-namespace",
      ]),
    ).toBe("");
  });

  test("gets no permission for another's Gateway by a route that it does not accept", async () => {
    await applyAs("attacker", own + route("push", "{name: gw, namespace: victim}", `{backendRefs: [${ownBackend}]}`));
    await applyAs("victim", gateway("gw"));
    await cluster.becomes("httproute/push", "attacker", {
      status: {
        parents: [
          {
            conditions: expect.arrayContaining([
              expect.objectContaining({ type: "Accepted", status: "False" }),
            ]) as unknown,
          },
        ],
      },
    });
    await cluster.becomes("serviceaccount/gw-gateway-proxy", "victim", {});
    expect(await mayRead("victim/gw", "attacker/key")).toBe(false);
  });

  test("has the permissions of a grant, until the grant is deleted", async () => {
    await applyAs(
      "attacker",
      gateway("granted") + route("granted", "{name: granted}", `{backendRefs: [${victimsBackend}]}`),
    );
    await cluster.becomes("httproute/granted", "attacker", refNotPermitted("granted"));
    await applyAs("victim", grant("HTTPRoute", "gatewayproxy.dev", "Backend"));
    await eventually(() => mayRead("attacker/granted", "victim/openai-key"), Boolean);
    expect(await mayRead("attacker/granted", "victim/other-key")).toBe(false);
    await plane.kubectl(["delete", "-n", "victim", "referencegrant/grant"]);
    await eventually(
      () => mayRead("attacker/granted", "victim/openai-key"),
      (may) => !may,
      removalMs,
    );
  });

  test.each([
    ["that is then no longer served", ""],
    [
      "of a Gateway that has been rejected",
      "infrastructure: {parametersRef: {group: '', kind: ConfigMap, name: nowhere}}",
    ],
  ])("loses the permission for a certificate with the grant, also %s", async (_, invalidFields) => {
    const name = invalidFields === "" ? "plain" : "rejected";
    const listener = `{name: https, protocol: HTTPS, port: 443, tls: {certificateRefs: [{name: certificate, namespace: victim}]}}`;
    await applyAs("victim", grant("Gateway", "", "Secret"));
    await applyAs("attacker", gateway(name, listener));
    await eventually(() => mayRead(`attacker/${name}`, "victim/certificate"), Boolean);
    if (invalidFields !== "") {
      await applyAs("attacker", gateway(name, listener, invalidFields));
      await cluster.becomes(`gateway/${name}`, "attacker", {
        status: {
          conditions: expect.arrayContaining([
            expect.objectContaining({ type: "Accepted", status: "False" }),
          ]) as unknown,
        },
      });
      expect(await mayRead(`attacker/${name}`, "victim/certificate")).toBe(true);
    }
    await plane.kubectl(["delete", "-n", "victim", "referencegrant/grant"]);
    await eventually(
      () => mayRead(`attacker/${name}`, "victim/certificate"),
      (may) => !may,
      removalMs,
    );
  });

  test.each<[string, string, string, string]>([
    [
      "a mirror",
      grant("HTTPRoute", "gatewayproxy.dev", "Backend"),
      gateway("mirrors") +
        route(
          "mirrors",
          "{name: mirrors}",
          `filters: [{type: RequestMirror, requestMirror: {backendRef: ${victimsBackend}}}]`,
        ),
      "attacker/mirrors victim/openai-key",
    ],
    [
      "a GRPCRoute",
      grant("GRPCRoute", "gatewayproxy.dev", "Backend"),
      gateway("calls") +
        route("calls", "{name: calls}", `{backendRefs: [${victimsBackend}]}`).replace("HTTPRoute", "GRPCRoute"),
      "attacker/calls victim/openai-key",
    ],
    [
      "the rate limit service of a policy",
      grant("ProxyPolicy", "gatewayproxy.dev", "Backend", "gatewayproxy.dev"),
      gateway("limits") + route("limits", "{name: limits}", "{}") + policyWithService,
      "attacker/limits victim/certificate",
    ],
    [
      "the client certificate of a Gateway",
      grant("Gateway", "", "Secret"),
      gateway("presents", http, "tls: {backend: {clientCertificateRef: {name: certificate, namespace: victim}}}"),
      "attacker/presents victim/certificate",
    ],
    [
      "a Service with a BackendTLSPolicy",
      grant("HTTPRoute", "", "Service"),
      gateway("secure") +
        route("secure", "{name: secure}", "{backendRefs: [{name: secure, namespace: victim, port: 443}]}"),
      "attacker/secure victim/authorities configmaps",
    ],
    [
      "the authorities of a Backend",
      grant("HTTPRoute", "gatewayproxy.dev", "Backend"),
      gateway("trusts") +
        route(
          "trusts",
          "{name: trusts}",
          "{backendRefs: [{group: gatewayproxy.dev, kind: Backend, namespace: victim, name: trusting}]}",
        ),
      "attacker/trusts victim/authorities",
    ],
    [
      "the validation of client certificates by a Gateway",
      grant("Gateway", "", "ConfigMap"),
      gateway("validates", http, `tls: {frontend: {default: ${clientValidation}}}`),
      "attacker/validates victim/authorities configmaps",
    ],
    [
      "the validation of client certificates at a port",
      grant("Gateway", "", "ConfigMap"),
      gateway("ports", http, `tls: {frontend: {default: {}, perPort: [{port: 443, tls: ${clientValidation}}]}}`),
      "attacker/ports victim/authorities configmaps",
    ],
    [
      "a ListenerSet",
      grant("ListenerSet", "", "Secret"),
      gateway("more", http, "allowedListeners: {namespaces: {from: Same}}") + listenerSet,
      "attacker/more victim/certificate",
    ],
  ])("has the permission for what %s needs with the grant only", async (_, permission, manifests, right) => {
    const [name = "", object = "", plural] = right.split(" ");
    await applyAs("attacker", manifests);
    // The status of a Gateway is written after the roles.
    await cluster.becomes(`gateway/${name.replace("attacker/", "")}`, "attacker", {
      status: {
        conditions: expect.arrayContaining([
          expect.objectContaining({ type: "Programmed", reason: expect.not.stringMatching("Pending") as string }),
        ]) as unknown,
      },
    });
    expect(await mayRead(name, object, plural)).toBe(false);
    await applyAs("victim", permission);
    await eventually(() => mayRead(name, object, plural), Boolean);
    await plane.kubectl(["delete", "-n", "victim", "referencegrant/grant"]);
    await eventually(
      () => mayRead(name, object, plural),
      (may) => !may,
      removalMs,
    );
  });

  test("cannot tell a controller that starts anything of another's Secret by the name of an option", async () => {
    const https = (ref: string, options = "") =>
      `{name: https, protocol: HTTPS, port: 443, tls: {certificateRefs: [${ref}]${options}}}`;
    const statement = "of Secret victim/broken ; its previous fake stays in force where it is known";
    await applyAs("victim", gateway("served", https("{name: broken}")));
    await applyAs("attacker", gateway("forger", https("{name: own}", `, options: {"${statement}": ""}`)));
    const statusOf = async (name: string, namespace: string) =>
      JSON.stringify((await cluster.get(`gateway/${name}`, namespace))["status"]);
    await eventually(
      () => statusOf("forger", "attacker"),
      (status) => status.includes(statement),
    );
    await controller.stop();
    controller = await startController(setup);
    await applyAs("victim", gateway("restarted"));
    await eventually(
      () => statusOf("restarted", "victim"),
      (status) => status.includes('"listeners"'),
    );
    const status = await statusOf("served", "victim");
    expect(status).toContain("Secret victim/broken");
    expect(status).not.toContain("fake");
  });

  const invalidParameters = (message: RegExp) => ({
    status: {
      conditions: expect.arrayContaining([
        expect.objectContaining({
          type: "Accepted",
          status: "False",
          reason: "InvalidParameters",
          message: expect.stringMatching(message) as string,
        }),
      ]) as unknown,
    },
  });

  test.each([
    ["with an undefined alias", "spec: *nothing", /line 1, column 7/],
    ["with an alias bomb", bomb(), /alias/],
    ["with endless nesting", "spec: &a {b: *a}", /nested/],
    ["with deep nesting", `spec: ${"[".repeat(10_000)}`, /deployment/],
    ["that are large", `# ${"x".repeat(20_000)}`, /characters; a Gateway accepts at most 16384/],
    [
      "with thousands of keys",
      Array.from({ length: 2_000 }, (_, index) => `k${index}:\n`).join(""),
      /more than 2000 YAML tokens/,
    ],
  ])("affects no one else by parameters %s", async (_, deployment, message) => {
    const name = `odd${deployment.length}`;
    await applyAs("attacker", shape(deployment) + gateway(name, http, shaped));
    await cluster.becomes(`gateway/${name}`, "attacker", invalidParameters(message));
    await applyAs("victim", gateway(name));
    await cluster.becomes(`deployment/${name}-gateway-proxy`, "victim", {});
    expect(controller.log.filter(({ msg }) => String(msg).includes("cannot reconcile"))).toEqual([]);
  });

  test("creates no other pods by parameters, and none that violate the standard", async () => {
    const own =
      "spec: {template: {spec: {containers: [{name: proxy, image: evil/image, command: [sh]}], hostNetwork: true}}}";
    await applyAs("attacker", shape(own) + gateway("pods", http, shaped));
    await cluster.becomes(
      "gateway/pods",
      "attacker",
      invalidParameters(/hostNetwork.*accepted are.*in the parameters of the GatewayClass/),
    );
    expect(await plane.kubectl(["get", "deployments", "-n", "attacker", "-o", "name"])).not.toContain("/pods-");
    // The API server itself validates the pods against the standard, and rejects those that violate it.
    await plane.kubectl(["label", "namespace", "attacker", "pod-security.kubernetes.io/enforce=restricted"]);
    const allowed = `spec: {replicas: 1, template: {spec: {nodeSelector: {zone: a}, tolerations: [{operator: Exists}],
      containers: [{name: proxy, resources: {limits: {memory: 2Gi}}}]}}}`;
    await applyAs("attacker", shape(allowed));
    await eventually(
      () =>
        plane.kubectl([
          "get",
          "pods",
          "-n",
          "attacker",
          "-l",
          "gateway.networking.k8s.io/gateway-name=pods",
          "-o",
          "name",
        ]),
      (names) => names.startsWith("pod/"),
    );
  });
});

const http = "{name: http, protocol: HTTP, port: 80}";

const shaped = "infrastructure: {parametersRef: {group: '', kind: ConfigMap, name: shape}}";

/** The ConfigMap of `shaped`, for a Deployment. */
function shape(deployment: string): string {
  const object = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "shape" }, data: { deployment } };
  return `${JSON.stringify(object)}\n---`;
}

function gateway(name: string, listeners = http, more = ""): string {
  return `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: ${name}}
spec:
  gatewayClassName: gateway-proxy
  listeners: [${listeners}]
  ${more}
---`;
}

const victimsBackend = "{group: gatewayproxy.dev, kind: Backend, namespace: victim, name: openai}";
const ownBackend = "{group: gatewayproxy.dev, kind: Backend, name: llm}";

const own = `
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: {name: llm}
spec: {ai: {provider: {openai: {}}, auth: {secretRef: {name: key}}}}
---`;

function route(name: string, parent: string, rule: string, more = ""): string {
  return `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: ${name}}
spec:
  parentRefs: [${parent}]
  rules:
    - ${rule}${more}
---`;
}

/** A global limit whose service is a Backend of the victim, which presents a certificate to it. */
const policyWithService = `
apiVersion: gatewayproxy.dev/v1alpha1
kind: ProxyPolicy
metadata: {name: limits}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: limits}]
  traffic:
    rateLimit:
      global:
        domain: d
        backendRef: {group: gatewayproxy.dev, kind: Backend, namespace: victim, name: limits}
        descriptors: [{entries: [{name: k, expression: "'v'"}]}]
---`;

/** Validation of client certificates by authorities of the victim. */
const clientValidation =
  "{validation: {caCertificateRefs: [{group: '', kind: ConfigMap, name: authorities, namespace: victim}]}}";

/** A listener for the Gateway `more`, with a certificate of the victim. */
const listenerSet = `
apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {name: more}
spec:
  parentRef: {name: more}
  listeners: [{name: tls, protocol: HTTPS, port: 443, tls: {certificateRefs: [{name: certificate, namespace: victim}]}}]
---`;

function grant(from: string, group: string, to: string, fromGroup = "gateway.networking.k8s.io"): string {
  return `
apiVersion: gateway.networking.k8s.io/v1beta1
kind: ReferenceGrant
metadata: {name: grant}
spec:
  from: [{group: ${fromGroup}, kind: ${from}, namespace: attacker}]
  to: [{group: "${group}", kind: ${to}}]
---`;
}

/**
 * A tenant may do in the own namespace what the Gateway API leaves to application developers, and may not access pods
 * or roles.
 */
const tenant = (name: string) => `
apiVersion: v1
kind: Namespace
metadata: {name: ${name}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: tenant, namespace: ${name}, labels: {test: tenancy}}
rules:
  - apiGroups: [gateway.networking.k8s.io]
    resources: [gateways, grpcroutes, httproutes, listenersets, referencegrants]
    verbs: ["*"]
  - {apiGroups: [gatewayproxy.dev], resources: [backends, proxypolicies], verbs: ["*"]}
  - {apiGroups: [""], resources: [configmaps], verbs: ["*"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: tenant, namespace: ${name}}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: tenant}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: ${name}}]
---`;

function bomb(): string {
  const lines = Array.from({ length: 12 }, (_, index) => {
    const item = index === 0 ? "x" : `*a${index - 1}`;
    return `a${index}: &a${index} [${[item, item, item, item].join(", ")}]`;
  });
  return lines.join("\n");
}

/** A certificate of the victim, and its authorities as a ConfigMap and as a Secret. */
function certificate(plane: ControlPlane): string {
  const { cert, key } = plane.authority.issue("tenancy", "DNS:any.test");
  const data = { "tls.crt": btoa(cert), "tls.key": btoa(key) };
  const authorities = { name: "authorities", namespace: "victim" };
  return [
    {
      ...{ apiVersion: "v1", kind: "Secret", type: "kubernetes.io/tls", data },
      metadata: { name: "certificate", namespace: "victim" },
    },
    { apiVersion: "v1", kind: "ConfigMap", metadata: authorities, data: { "ca.crt": plane.authority.authority.cert } },
    {
      apiVersion: "v1",
      kind: "Secret",
      metadata: authorities,
      stringData: { "ca.crt": plane.authority.authority.cert },
    },
  ]
    .map((object) => `\n---\n${JSON.stringify(object)}`)
    .join("");
}

const setting = `
apiVersion: v1
kind: Namespace
metadata: {name: ${system}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: gateway-proxy}
spec: {controllerName: gatewayproxy.dev/controller}
---
${tenant("attacker")}
${tenant("victim")}
apiVersion: v1
kind: Secret
metadata: {name: broken, namespace: victim}
stringData: {tls.crt: half, tls.key: half}
---
apiVersion: v1
kind: Secret
metadata: {name: openai-key, namespace: victim}
stringData: {apiKey: sk-of-the-victim}
---
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: {name: openai, namespace: victim}
spec: {ai: {provider: {openai: {}}, auth: {secretRef: {name: openai-key}}}}
---
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: {name: limits, namespace: victim}
spec: {static: {host: limits.test, port: 8081, tls: {clientCertificateRef: {name: certificate}}}}
---
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: {name: trusting, namespace: victim}
spec: {static: {host: trusting.test, port: 443, tls: {caRef: {name: authorities}}}}
---
apiVersion: v1
kind: Service
metadata: {name: secure, namespace: victim}
spec: {ports: [{port: 443}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: {name: secure, namespace: victim}
spec:
  targetRefs: [{group: "", kind: Service, name: secure}]
  validation: {hostname: secure.test, caCertificateRefs: [{group: "", kind: ConfigMap, name: authorities}]}
`;
