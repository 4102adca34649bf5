import { runToEnd, runInSlices } from "@gatewayproxy/runtime/steps";
import { describe, expect, test } from "vitest";
import { parseManifests } from "../api/parse-manifests.ts";
import type { ResourceSet } from "../api/resource.ts";
import type { KubeObject } from "../kube/object.ts";
import { noCredentials } from "../translate/tls/credentials.ts";
import { clusterStatuses, controllerObjects, type Plan, planFor } from "./plan.ts";
import { ownedKey } from "./provision/owned-object.ts";
import type { ProvisionErrors } from "./provision/provisioner.ts";
import { gateway, gatewayClass, http, plan, resourcesOf } from "./testing/planned-gateways.ts";
import { proxyDefaults as defaults } from "./testing/proxy-defaults.ts";
import { supportedFeatures } from "./supported-features.ts";

const keys = ({ provision }: Plan) => provision.desired.map(ownedKey);

function portsOf({ provision }: Plan): unknown {
  const service = provision.desired.find(({ kind }) => kind === "Service");
  return (service?.body["spec"] as { ports?: { port: number }[] } | undefined)?.ports?.map(({ port }) => port);
}

test("namespaces that are being deleted are known", () => {
  const namespaces = `
apiVersion: v1
kind: Namespace
metadata: {name: ending, deletionTimestamp: "2026-01-01T00:00:00Z"}
---
apiVersion: v1
kind: Namespace
metadata: {name: infra}
`;
  expect(plan(resourcesOf(namespaces)).provision.terminating).toEqual(new Set(["ending"]));
});

describe("a listener at a port of the proxy's own", () => {
  test.each([
    [15_000, "the admin server"],
    [15_020, "metrics"],
    [15_021, "readiness"],
  ])("is not accepted: %i", (port, use) => {
    const taken = `${http}, {name: own, port: ${port}, protocol: HTTP, hostname: a.test}`;
    const planned = plan(resourcesOf(gatewayClass, gateway("web", { listeners: taken })));
    const own = planned.statuses.gateways[0]?.listeners.find(({ name }) => name === "own");
    expect(own?.conditions.filter(({ type }) => type === "Accepted" || type === "Programmed")).toMatchObject([
      {
        status: "False",
        reason: "PortUnavailable",
        message: `port ${port} is used by the proxy itself, for ${use}; accepted is every port except 15000, 15020, 15021`,
      },
      { status: "False", reason: "Invalid" },
    ]);
    expect(portsOf(planned)).toEqual([80]);
  });

  test.each([
    ["127.0.0.1", 8_081, [8_081]],
    ["::1", 8_081, [8_081]],
    ["127.0.0.1", 15_081, [15_081, 15_082, 15_083, 15_084]],
    // A metadata service is on another machine.
    ["169.254.169.254", 8_081, []],
  ])("nor at one of a program beside it, by the allowed address %s:%i", (host, port, taken) => {
    const listeners = [8_081, 15_081, 15_082, 15_083, 15_084].map(
      (each) => `{name: l${each}, port: ${each}, protocol: HTTP}`,
    );
    const resources = resourcesOf(gatewayClass, gateway("web", { listeners: listeners.join(", ") }));
    const settings = { ...defaults, allowedAddresses: [{ host, port }] };
    const { statuses } = runToEnd(
      planFor({ resources, rejected: [], unreadable: new Set(), crowded: new Set() }, settings, noCredentials),
    );
    const rejected = statuses.gateways[0]?.listeners.filter(({ conditions }) =>
      conditions.some(({ reason }) => reason === "PortUnavailable"),
    );
    expect(rejected?.map(({ name }) => name)).toEqual(taken.map((each) => `l${each}`));
  });

  test("is rejected in parameters", () => {
    const shape = `
apiVersion: v1
kind: ConfigMap
metadata: {name: shape, namespace: infra}
data: {service: "spec: {ports: [{port: 15020}]}"}
---`;
    const shaped = { infrastructure: '{parametersRef: {group: "", kind: ConfigMap, name: shape}}' };
    const { statuses } = plan(resourcesOf(gatewayClass, shape, gateway("web", shaped)));
    expect(statuses.gateways[0]?.conditions.find(({ type }) => type === "Accepted")).toMatchObject({
      reason: "InvalidParameters",
      message: expect.stringContaining("service.spec.ports[0].port") as string,
    });
  });
});

describe("the desired objects", () => {
  test("are those of each Gateway of the controller, and of no other", () => {
    const resources = resourcesOf(gatewayClass, gateway("web"), gateway("foreign", { className: "theirs" }));
    expect(keys(plan(resources))).toEqual([
      "ClusterRoleBinding gateway-proxy:infra:web-ours",
      "ServiceAccount infra/web-ours",
      "Service infra/web-ours",
      "Deployment infra/web-ours",
      "PodDisruptionBudget infra/web-ours",
    ]);
  });

  test("leave the objects of a Gateway unchanged that is not accepted or serves nothing yet", () => {
    const waiting = `{name: https, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: missing}]}}`;
    const unknown = `{parametersRef: {group: example.com, kind: Shape, name: s}}`;
    const resources = resourcesOf(
      gatewayClass,
      gateway("waiting", { listeners: waiting }),
      gateway("rejected", { infrastructure: unknown }),
    );
    const { provision } = plan(resources);
    expect(provision.desired).toEqual([]);
    expect([...provision.suspended.keys()]).toEqual(["infra/rejected", "infra/waiting"]);
    expect(provision.present).toEqual(new Set(["infra/waiting", "infra/rejected"]));
  });

  test("keep the rights for routes of ListenerSets of a Gateway that is not accepted, since its proxies go on", () => {
    const infrastructure = `{parametersRef: {group: example.com, kind: Shape, name: s}}`;
    const resources = resourcesOf(
      gatewayClass,
      gateway("rejected", { infrastructure, more: "allowedListeners: {namespaces: {from: All}}" }),
      `
apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {name: set, namespace: infra}
spec: {parentRef: {name: rejected}, listeners: [{name: http, port: 8080, protocol: HTTP}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: route, namespace: infra}
spec:
  parentRefs: [{kind: ListenerSet, name: set}]
  rules: [{backendRefs: [{group: gatewayproxy.dev, kind: Backend, name: llm}]}]
---
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: {name: llm, namespace: infra}
spec: {ai: {provider: {openai: {}}, auth: {secretRef: {name: key}}}}
---`,
    );
    const rights = plan(resources).provision.suspended.get("infra/rejected");
    const roles = rights?.kind === "known" ? rights.roles.filter(({ kind }) => kind === "Role") : [];
    expect(roles.map(({ namespace, body }) => [namespace, body["rules"]])).toMatchObject([
      ["infra", [{ resources: ["secrets"], resourceNames: ["key"] }]],
    ]);
  });

  test.each([
    ["that is rejected", gatewayClass + gateway("broken", { more: "addresses: everywhere" })],
    [
      "whose class is rejected",
      gatewayClass.replace("/controller}", "/controller, parametersRef: s}") + gateway("broken"),
    ],
  ])("leave the objects of a Gateway unchanged %s", (_, text) => {
    const { resources, problems } = parseManifests([{ path: "a.yaml", text }]);
    expect(problems).toHaveLength(1);
    const { desired: wanted, suspended, present } = plan(resources).provision;
    expect(wanted).toEqual([]);
    expect([...suspended.keys()]).toEqual(["infra/broken"]);
    expect([...present]).toEqual(["infra/broken"]);
  });

  test("identify a Gateway by labels, whose values are too short for the longest names", () => {
    const infrastructure = `{parametersRef: {group: example.com, kind: Shape, name: s}}`;
    const resources = resourcesOf(gatewayClass, gateway("w".repeat(64), { infrastructure }));
    const { present, suspended } = plan(resources).provision;
    expect([...suspended.keys()]).toEqual([expect.stringMatching(/^infra\/w{54}-[0-9a-f]{8}$/)]);
    expect(present).toEqual(new Set(suspended.keys()));
  });

  test("have a port for each accepted listener, also for one whose certificate is missing", () => {
    const listeners = [
      http,
      "{name: more, port: 80, protocol: HTTP, hostname: more.test}",
      "{name: https, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: missing}]}}",
      "{name: unknown, port: 9000, protocol: SCTP}",
      "{name: queries, port: 53, protocol: UDP}",
      "{name: transfers, port: 53, protocol: TCP}",
    ];
    expect(portsOf(plan(resourcesOf(gatewayClass, gateway("web", { listeners: listeners.join(", ") }))))).toEqual([
      53, 53, 80, 443,
    ]);
  });

  test("have the ports of ListenerSets that the Gateway allows", () => {
    const set = (name: string, namespace: string, port: number) => `
apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {name: ${name}, namespace: ${namespace}}
spec:
  parentRef: {name: web, namespace: infra}
  listeners: [{name: http, port: ${port}, protocol: HTTP}]
---`;
    const more = "allowedListeners: {namespaces: {from: Same}}";
    const resources = resourcesOf(
      gatewayClass,
      gateway("web", { more }),
      set("near", "infra", 8080),
      set("far", "team", 9090),
    );
    expect(portsOf(plan(resources))).toEqual([80, 8080]);
  });

  test("give proxies the right to read the Secrets that their Gateway refers to", () => {
    const listeners = `${http}, {name: https, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: cert}]}}`;
    const { provision } = plan(resourcesOf(gatewayClass, gateway("web", { listeners })));
    const role = provision.desired.find(({ kind }) => kind === "Role");
    expect(role?.body["rules"]).toMatchObject([{ resources: ["secrets"], resourceNames: ["cert"] }]);
  });

  test("follow the parameters of the class and of the Gateway", () => {
    const shape = `
apiVersion: v1
kind: ConfigMap
metadata: {name: shape, namespace: infra}
data: {deployment: "spec: {replicas: 7}"}
---`;
    const infrastructure = `{parametersRef: {group: "", kind: ConfigMap, name: shape}}`;
    const resources = resourcesOf(gatewayClass, shape, gateway("web", { infrastructure }));
    const deployment = plan(resources).provision.desired.find(({ kind }) => kind === "Deployment");
    expect(deployment?.body["spec"]).toMatchObject({ replicas: 7 });
    expect(runToEnd(controllerObjects(resources)).named).toContainEqual({
      kind: "ConfigMap",
      namespace: "infra",
      name: "shape",
    });
  });
});

describe("statuses", () => {
  const service: KubeObject = {
    metadata: { name: "web-ours", namespace: "infra" },
    spec: { type: "ClusterIP", clusterIP: "10.96.0.7" },
  };
  const slice = `
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: s, namespace: infra, labels: {kubernetes.io/service-name: web-ours}}
addressType: IPv4
ports: [{port: 80}]
endpoints: [{addresses: [10.0.0.1], conditions: {ready: true}}]
---`;
  const policyOn = (targets: string) => `
apiVersion: gatewayproxy.dev/v1alpha1
kind: ProxyPolicy
metadata: {name: limits, namespace: infra}
spec:
  targetRefs: [${targets}]
  traffic: {rateLimit: {local: [{requests: 10, unit: Minutes}]}}
---`;

  function statusesOf(resources: ResourceSet, faults: Partial<ProvisionErrors> = {}) {
    const all = { gateways: new Map(), withheld: new Map(), ...faults };
    return runToEnd(clusterStatuses(plan(resources), { resources, errors: all, serviceOf: () => service }));
  }

  test("of a class list the supported features", () => {
    const [status] = statusesOf(resourcesOf(gatewayClass)).gatewayClasses;
    expect(status?.supportedFeatures).toEqual(supportedFeatures.map((name) => ({ name })));
  });

  test("of a Gateway report that it is programmed once a proxy is ready at an address", () => {
    const [status] = statusesOf(resourcesOf(gatewayClass, gateway("web"), slice)).gateways;
    expect(status?.addresses).toEqual([{ type: "IPAddress", value: "10.96.0.7" }]);
    expect(status?.conditions).toContainEqual(expect.objectContaining({ type: "Programmed", status: "True" }));
  });

  test("of Gateways report that a kind cannot be read only where no proxy is ready", () => {
    const observe = (resources: ResourceSet, areServicesKnown = true) => {
      const errors = { gateways: new Map(), withheld: new Map() };
      const observed = { resources, errors, listError: "cannot read Deployment", areServicesKnown };
      return runToEnd(clusterStatuses(plan(resources), { ...observed, serviceOf: () => service }));
    };
    const programmed = ({ gateways: [status] }: ReturnType<typeof observe>) =>
      status?.conditions.find(({ type }) => type === "Programmed");
    expect(programmed(observe(resourcesOf(gatewayClass, gateway("web"), slice)))).toMatchObject({ status: "True" });
    const waiting = resourcesOf(gatewayClass, gateway("web"));
    expect(programmed(observe(waiting))).toMatchObject({ status: "False", message: "cannot read Deployment" });
    // Without Services the addresses are unknown, and the status stays as it is.
    expect(observe(waiting, false)).toMatchObject({ gateways: [], gatewayClasses: [{ name: "ours" }] });
  });

  test("of a Gateway report why its objects cannot be created", () => {
    const gateways = new Map([
      ["infra/web", "quota exceeded"],
      ["infra/other", "of another Gateway"],
    ]);
    const [status] = statusesOf(resourcesOf(gatewayClass, gateway("web"), slice), { gateways }).gateways;
    expect(status?.conditions).toContainEqual(
      expect.objectContaining({
        type: "Programmed",
        status: "False",
        reason: "NoResources",
        message: "quota exceeded",
      }),
    );
  });

  test("of a Backend report why proxies cannot read its Secret, and the Gateway's do not", () => {
    const backend = (name: string) => `
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: {name: ${name}, namespace: tenant}
spec: {ai: {provider: {openai: {}}, auth: {secretRef: {name: ${name}}}}}
---
apiVersion: v1
kind: Secret
metadata: {name: ${name}, namespace: tenant}
stringData: {apiKey: k}
---`;
    const resources = resourcesOf(gatewayClass, gateway("web"), slice, backend("a"), backend("b"));
    const withheld = new Map([["infra/web", new Map([["Secret tenant/a", "Role tenant/r already exists"]])]]);
    const { gateways, backends } = statusesOf(resources, { withheld });
    expect(gateways[0]?.conditions).toContainEqual(expect.objectContaining({ type: "Programmed", status: "True" }));
    expect(backends).toMatchObject([
      {
        name: "a",
        conditions: [
          {
            status: "False",
            reason: "InvalidSecretRef",
            message:
              "proxies of Gateway infra/web cannot read Secret tenant/a: Role tenant/r already exists. The controller must be able to write the Role and RoleBinding that permit it",
          },
        ],
      },
      { name: "b", conditions: [{ status: "True" }] },
    ]);
  });

  test("of ListenerSets, Gateways and BackendTLSPolicies report which references proxies cannot read", () => {
    const tls = (name: string, namespace: string) =>
      `{name: ${name}, port: 443, hostname: ${name}.test, protocol: HTTPS, tls: {certificateRefs: [{name: cert, namespace: ${namespace}}]}}`;
    const more =
      "allowedListeners: {namespaces: {from: All}}, tls: {backend: {clientCertificateRef: {name: cert, namespace: tenant}}}";
    const world = `
apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {name: set, namespace: tenant}
spec:
  parentRef: {name: web, namespace: infra}
  listeners: [${tls("own", "tenant")}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: {name: tls, namespace: tenant}
spec:
  targetRefs: [{group: "", kind: Service, name: s}]
  validation: {hostname: s.test, caCertificateRefs: [{group: "", kind: ConfigMap, name: ca}]}
---
apiVersion: v1
kind: Service
metadata: {name: s, namespace: tenant}
spec: {ports: [{port: 80}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: r, namespace: tenant}
spec: {parentRefs: [{name: web, namespace: infra}], rules: [{backendRefs: [{name: s, port: 80}]}]}
---`;
    const listeners = `{name: http, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}, ${tls("web", "tenant")}`;
    const resources = resourcesOf(gatewayClass, gateway("web", { listeners, more }), world);
    const fault = "Role tenant/r already exists";
    const withheld = new Map([
      [
        "infra/web",
        new Map([
          ["Secret tenant/cert", fault],
          ["ConfigMap tenant/ca", fault],
        ]),
      ],
    ]);
    const { gateways, listenerSets, backendTlsPolicies } = statusesOf(resources, { withheld });
    const unresolved = (kind: string): unknown =>
      expect.objectContaining({
        ...{ type: "ResolvedRefs", status: "False" },
        message: expect.stringContaining(`proxies of Gateway infra/web cannot read ${kind}: ${fault}`) as unknown,
      });
    expect(gateways[0]?.conditions).toContainEqual(unresolved("Secret tenant/cert"));
    expect(gateways[0]?.listeners[1]?.conditions).toContainEqual(unresolved("Secret tenant/cert"));
    expect(listenerSets[0]?.listeners[0]?.conditions).toContainEqual(unresolved("Secret tenant/cert"));
    expect(backendTlsPolicies[0]?.ancestors[0]?.conditions).toContainEqual(unresolved("ConfigMap tenant/ca"));
    const others = statusesOf(resources, {
      withheld: new Map([["infra/other", withheld.get("infra/web") ?? new Map()]]),
    });
    expect(JSON.stringify(others)).not.toContain("cannot read");
  });

  test("of listeners report which certificate authorities for clients the proxies cannot read", () => {
    const cert = "tls: {certificateRefs: [{name: cert}]}";
    const listeners = [
      http,
      `{name: own, port: 443, protocol: HTTPS, ${cert}}`,
      `{name: other, port: 8443, protocol: HTTPS, ${cert}}`,
      `{name: open, port: 9443, protocol: HTTPS, ${cert}}`,
    ].join(", ");
    const validating = (name: string) =>
      `{validation: {caCertificateRefs: [{group: "", kind: ConfigMap, name: ${name}, namespace: tenant}]}}`;
    const perPort = `[{port: 8443, tls: ${validating("b")}}, {port: 9443, tls: {}}]`;
    const tls = `tls: {frontend: {default: ${validating("a")}, perPort: ${perPort}}}`;
    const set = `
apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {name: set, namespace: tenant}
spec:
  parentRef: {name: web, namespace: infra}
  listeners: [{name: of-set, port: 443, hostname: set.test, protocol: HTTPS, tls: {certificateRefs: [{name: own}]}}]
---`;
    const more = `allowedListeners: {namespaces: {from: All}}, ${tls}`;
    const resources = resourcesOf(gatewayClass, gateway("web", { listeners, more }), set);
    const fault = "Role tenant/r already exists";
    const withheld = new Map([
      [
        "infra/web",
        new Map([
          ["ConfigMap tenant/a", fault],
          ["ConfigMap tenant/b", fault],
        ]),
      ],
    ]);
    const { gateways, listenerSets } = statusesOf(resources, { withheld });
    const all = [...(gateways[0]?.listeners ?? []), ...(listenerSets[0]?.listeners ?? [])];
    const named = all.map(({ name, conditions }) => {
      const resolved = conditions.find(({ type }) => type === "ResolvedRefs");
      return [name, resolved?.status, resolved?.message.match(/cannot read ConfigMap tenant\/./g)];
    });
    expect(named).toEqual([
      ["http", "True", null],
      ["own", "False", ["cannot read ConfigMap tenant/a"]],
      ["other", "False", ["cannot read ConfigMap tenant/b"]],
      ["open", "False", null],
      ["of-set", "False", ["cannot read ConfigMap tenant/a"]],
    ]);
  });

  test("of a policy contain its summary", () => {
    const targets = "{group: gateway.networking.k8s.io, kind: Gateway, name: web}";
    const [status] = statusesOf(resourcesOf(gatewayClass, gateway("web"), policyOn(targets))).proxyPolicies;
    expect(status?.summary).toEqual({
      ...{ target: "Gateway/web", limits: "10 requests/Minute", accepted: "True", attached: "True" },
    });
  });
});

test("yields to the event loop after each object, so that the lease is renewed meanwhile", async () => {
  const routes = Array.from(
    { length: 50 },
    (_, index) => `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: r${index}, namespace: infra}
spec: {parentRefs: [{name: web}], rules: [{backendRefs: [{name: s, port: 80}]}]}
---`,
  );
  const resources = resourcesOf(gatewayClass, gateway("web"), ...routes);
  let turns = 0;
  let isOver = false;
  const count = () => {
    turns++;
    if (!isOver) setImmediate(count);
  };
  setImmediate(count);
  let nowMs = 0;
  const known = { resources, rejected: [], unreadable: new Set<string>(), crowded: new Set<string>() };
  // With this clock every step takes longer than a time slice.
  const planned = await runInSlices(planFor(known, defaults, noCredentials), { nowMs: () => (nowMs += 100) });
  isOver = true;
  // Each route is validated, attached and reported.
  expect(turns).toBeGreaterThan(3 * routes.length);
  expect(planned).toEqual(plan(resources));
});

test("reads the references of a route once, however many Gateways it has", () => {
  const names = Array.from({ length: 8 }, (_, index) => `g${index}`);
  const route = `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: r, namespace: infra}
spec:
  parentRefs: [${names.map((name) => `{name: ${name}}`).join(", ")}]
  rules: [{backendRefs: [{group: gatewayproxy.dev, kind: Backend, name: b}]}]
---`;
  const readsWith = (gateways: readonly string[]): number => {
    const resources = resourcesOf(gatewayClass, ...gateways.map((name) => gateway(name)), route);
    let reads = 0;
    const rules = resources.HTTPRoute.flatMap(({ spec }) => spec.rules);
    for (const rule of rules) {
      const { backendRefs } = rule;
      Object.defineProperty(rule, "backendRefs", { get: () => (reads++, backendRefs), enumerable: true });
    }
    expect(plan(resources).provision.desired.length).toBeGreaterThan(gateways.length);
    return reads;
  };
  expect(readsWith(names)).toBe(readsWith(names.slice(0, 1)));
});
