/**
 * One namespace has 40 MB of routes, of Gateways, or of small objects of all kinds, which with what is computed of them
 * take more than the memory of a controller by the chart's defaults, or as many objects with the controller's label. It
 * lives on, and takes care of another namespace.
 */
import { expect, test } from "vitest";
import type { KubeObject } from "../../../proxy/src/kube/object.ts";
import { gatewayApi, proxyApi } from "../../support/api-versions.ts";
import type { ObjectApiServer } from "../../support/object-api-server.ts";
import { object, putAll } from "../support/bystander.ts";
import { gateways, httpRoutes, smallGateway, startLimitedController } from "../support/limited-controller.ts";
import { smallIn, smallObjectsOf } from "../support/small-objects.ts";
import { times } from "../support/tenant-objects.ts";

const policies = `/apis/${proxyApi}/proxypolicies`;

function largeRoute(index: number) {
  const match = (rule: number, at: number) => ({
    path: { type: "PathPrefix", value: `/${index}/${rule}/${at}` },
    headers: times(2, (header) => ({ type: "Exact", name: `x-${header}`, value: `v${index}` })),
  });
  const rules = times(16, (rule) => ({ matches: times(8, (at) => match(rule, at)) }));
  return object(gatewayApi, "HTTPRoute", "crowd", `r${index}`, { spec: { parentRefs: [{ name: "web" }], rules } });
}

function largeGateway(index: number) {
  const matchExpressions = times(8, (at) => ({ key: `k${at}`, operator: "In", values: [`v${at}`, "w"] }));
  const allowedRoutes = { namespaces: { from: "Selector", selector: { matchExpressions } } };
  const listeners = times(64, (at) => ({
    ...{ name: `l${at}`, port: 80, protocol: "HTTP", hostname: `h${at}-${index}.test`, allowedRoutes },
  }));
  const spec = { gatewayClassName: "gateway-proxy", listeners };
  return object(gatewayApi, "Gateway", "crowd", `r${index}`, { spec });
}

const small = smallIn("crowd");

const smallObjects = smallObjectsOf("crowd");

const routeOfManyParents = small(gatewayApi, "HTTPRoute", (index) => ({
  spec: {
    // The first one is a Gateway of the namespace.
    parentRefs: times(32, (at) => ({ name: at === 0 ? "web" : `web-${at}` })),
    rules: [{ matches: [{ path: { value: `/${index}` } }] }],
  },
}));

const routeOfManyBackends = small(gatewayApi, "HTTPRoute", (index) => ({
  spec: {
    parentRefs: [{ name: "web" }],
    rules: times(16, (rule) => ({
      matches: [{ path: { value: `/${index}/${rule}` } }],
      backendRefs: times(16, (at) => ({ name: `svc-${index}-${rule}-${at}`, port: 80 })),
    })),
  },
}));

const policyOfManyRoutes = small(proxyApi, "ProxyPolicy", (index) => ({
  spec: {
    targetRefs: times(16, (at) => ({
      ...{ group: "gateway.networking.k8s.io", kind: "HTTPRoute" },
      name: `r${(index * 16 + at) % 450}`,
    })),
    traffic: { rateLimit: { local: [{ requests: 1, unit: "Minutes" }] } },
  },
}));

type Make = (index: number) => KubeObject;

const crowds: readonly (readonly [string, string, readonly (readonly [string, Make])[], number])[] = [
  ["large routes", "routes", [[httpRoutes, largeRoute]], 2_000],
  ["large Gateways", "Gateways and ListenerSets", [[gateways, largeGateway]], 1_000],
  ["routes of many parents", "routes", [[httpRoutes, routeOfManyParents]], 4_000],
  ["routes of many backends", "routes", [[httpRoutes, routeOfManyBackends]], 3_000],
  ["small objects", "Gateways and ListenerSets", smallObjects, 8_000],
];

test.each(crowds)(
  "the controller survives the %s of one namespace within the memory of its container",
  {
    timeout: 420_000,
  },
  async (_, words, objects, count) => {
    const started = await startLimitedController(async (api) => {
      api.put(gateways, smallGateway("crowd", "web"));
      for (const [collection, make] of objects) await putAll(api, collection, count, make);
    });
    if (started === undefined) return;
    const { api, controller } = started;
    const statusOf = (of: string, namespace: string, name: string) => {
      const end = controller.end();
      return end === undefined ? JSON.stringify(api.get(of, namespace, name)?.["status"] ?? "") : `ended by ${end}`;
    };
    const options = { timeout: 180_000, interval: 500 };
    await expect.poll(() => statusOf(gateways, "other", "web"), options).toMatch(/Programmed|ended/);
    // Some of those without room say so in their status.
    const [[collection] = [""]] = objects;
    const statuses = () => times(count, (index) => statusOf(collection, "crowd", `r${index}`)).join("\n");
    await expect
      .poll(statuses, { ...options, interval: 2_000 })
      .toMatch(new RegExp(`(the ${words} of namespace crowd take more than|namespace crowd has more)|ended`));
    expect(statuses()).not.toContain("ended");
  },
);

/** Each route attaches to eight Gateways with 64 listeners. */
async function putManyAttachments(api: ObjectApiServer): Promise<void> {
  const listeners = times(64, (at) => ({ name: `l${at}`, port: 80, protocol: "HTTP", hostname: `*.h${at}.test` }));
  const gateway = small(gatewayApi, "Gateway", () => ({ spec: { gatewayClassName: "gateway-proxy", listeners } }));
  await putAll(api, gateways, 8, gateway);
  const route = small(gatewayApi, "HTTPRoute", (index) => ({
    spec: {
      parentRefs: times(8, (at) => ({ name: `r${at}` })),
      rules: [{ matches: [{ path: { value: `/${index}` } }], backendRefs: [{ name: `r${index}`, port: 80 }] }],
    },
  }));
  await putAll(api, httpRoutes, 3_000, route);
  await putAll(api, policies, 4_000, policyOfManyRoutes);
  for (const [collection, make] of smallObjects) {
    if (collection !== gateways && collection !== httpRoutes && collection !== policies) {
      await putAll(api, collection, 6_000, make);
    }
  }
}

async function putPoliciesOfManyParents(api: ObjectApiServer): Promise<void> {
  for (let at = 0; at < 32; at++) api.put(gateways, smallGateway("crowd", at === 0 ? "web" : `web-${at}`));
  await putAll(api, httpRoutes, 450, routeOfManyParents);
  await putAll(api, policies, 4_000, policyOfManyRoutes);
}

/** Each policy has eight expressions at 512 Gateways. */
async function putExpressionsAtManyGateways(api: ObjectApiServer): Promise<void> {
  const gateway = small(gatewayApi, "Gateway", () => ({ spec: smallGateway("crowd", "")["spec"] }));
  await putAll(api, gateways, 1_500, gateway);
  const route = small(gatewayApi, "HTTPRoute", (index) => ({
    spec: {
      parentRefs: times(32, (at) => ({ name: `r${(index * 32 + at) % 1_500}` })),
      rules: [{ matches: [{ path: { value: `/${index}` } }] }],
    },
  }));
  await putAll(api, httpRoutes, 450, route);
  const policy = (index: number) => {
    const { targetRefs } = policyOfManyRoutes(index)["spec"] as { readonly targetRefs: unknown };
    const local = times(4, (at) => ({
      ...{ requests: 1, unit: "Minutes" },
      ...{ when: `request.path == "/${index}-${at}"`, key: `request.headers["x-${index}-${at}"]` },
    }));
    return object(proxyApi, "ProxyPolicy", "crowd", `r${index}`, {
      spec: { targetRefs, traffic: { rateLimit: { local } } },
    });
  };
  await putAll(api, policies, 1_500, policy);
}

/** Together, they have three times as many objects as there is room for. */
async function putSmallObjectsOfFourNamespaces(api: ObjectApiServer): Promise<void> {
  const namespaces = ["crowd", "crowd-2", "crowd-3", "crowd-4"];
  for (const [collection, make] of namespaces.flatMap(smallObjectsOf)) await putAll(api, collection, 2_000, make);
}

const ownLabels = {
  "app.kubernetes.io/managed-by": "gatewayproxy.dev",
  "gatewayproxy.dev/gateway-namespace": "crowd",
};
/** With an owner, they are left to the garbage collection. */
const owned = {
  labels: ownLabels,
  ownerReferences: [{ apiVersion: "v1", kind: "ConfigMap", name: "none", uid: "none" }],
};

/** Each has the label of the controller's objects, and 43,000 empty rules, in 130 KB. */
async function putNetworkPoliciesOfEmptyRules(api: ObjectApiServer): Promise<void> {
  const apiVersion = "networking.k8s.io/v1";
  const spec = { podSelector: {}, ingress: times(43_000, () => ({})) };
  const policy = (index: number) => object(apiVersion, "NetworkPolicy", "crowd", `r${index}`, { spec }, owned);
  await putAll(api, `/apis/${apiVersion}/networkpolicies`, 200, policy);
}

/** Each has 1,024 ports, and no endpoint. */
async function putEndpointSlicesOfManyPorts(api: ObjectApiServer): Promise<void> {
  const apiVersion = "discovery.k8s.io/v1";
  const slice = (index: number) =>
    object(apiVersion, "EndpointSlice", "crowd", `r${index}`, {
      ...{ addressType: "IPv4", endpoints: [] },
      ports: times(1_024, (at) => ({ name: `p${at}-${index}`, port: 1 + at, protocol: "TCP" })),
    });
  await putAll(api, `/apis/${apiVersion}/endpointslices`, 3_000, slice);
}

/** Each has 112 KB of conditions, which the tenant has written in the name of the controller. */
async function putLongStatuses(api: ObjectApiServer): Promise<void> {
  const route = small(gatewayApi, "HTTPRoute", (index) => ({
    spec: { parentRefs: [{ name: "web" }], rules: [{}] },
    status: longStatus(index),
  }));
  await putAll(api, httpRoutes, 3_000, route);
}

function longStatus(index: number) {
  const text = (at: number) => `${16 * index + at}`.padEnd(7_000, "x");
  const conditions = (parent: number) =>
    times(8, (at) => ({ type: `T${at}`, status: "True", reason: "R", message: text(8 * parent + at) }));
  const parents = times(2, (parent) => ({
    ...{ controllerName: "gatewayproxy.dev/controller", parentRef: { name: `web-${parent}` } },
    conditions: conditions(parent),
  }));
  return { parents };
}

/** As `putManyAttachments`, with all else that a namespace may have. */
async function putAllAtOnce(api: ObjectApiServer): Promise<void> {
  await putManyAttachments(api);
  for (let index = 0; index < 2_000; index++) {
    api.put(httpRoutes, { ...api.get(httpRoutes, "crowd", `r${index}`), status: longStatus(index) });
  }
  await putNetworkPoliciesOfEmptyRules(api);
  const apiKey = Buffer.alloc(700_000, "x").toString("base64");
  await putAll(api, "/api/v1/secrets", 100, (index) =>
    object("v1", "Secret", "crowd", `s${index}`, { data: { apiKey } }),
  );
  const listeners = times(25, (at) => ({
    ...{ name: `l${at}`, port: 443, hostname: `h${at}.test`, protocol: "HTTPS" },
    tls: { certificateRefs: times(4, (ref) => ({ name: `s${at * 4 + ref}` })) },
  }));
  const spec = { gatewayClassName: "gateway-proxy", listeners };
  api.put(gateways, object(gatewayApi, "Gateway", "crowd", "https", { spec }));
}

test.each([
  ["NetworkPolicies with the label of its own and many empty rules", putNetworkPoliciesOfEmptyRules],
  ["EndpointSlices with many ports", putEndpointSlicesOfManyPorts],
  ["long statuses that others have written", putLongStatuses],
  ["the small objects of four namespaces", putSmallObjectsOfFourNamespaces],
  ["policies of routes with many Gateways", putPoliciesOfManyParents],
  ["expressions at many Gateways", putExpressionsAtManyGateways],
  ["routes with many listeners, with as much of all other kinds as has room", putManyAttachments],
  ["the same, with Secrets, long statuses and objects with the label of its own", putAllAtOnce],
])(
  "the controller survives %s within the memory of its container",
  {
    timeout: 420_000,
  },
  async (_, put) => {
    const started = await startLimitedController(put);
    if (started === undefined) return;
    const { api, controller } = started;
    const status = () => controller.end() ?? JSON.stringify(api.get(gateways, "other", "web")?.["status"] ?? "");
    // The first plan has all objects.
    await expect.poll(status, { timeout: 180_000, interval: 500 }).toMatch(/Programmed|^SIG/);
    expect(status()).toContain("Programmed");
    // Secrets are read after the plan that refers to them.
    const isHttpsReported = () =>
      controller.end() ?? JSON.stringify(api.get(gateways, "crowd", "https") ?? "observedGeneration");
    await expect.poll(isHttpsReported, { timeout: 180_000, interval: 500 }).toMatch(/observedGeneration|^SIG/);
    expect(controller.end()).toBeUndefined();
    // A change of the other namespace is read, and has a status.
    const route = object(gatewayApi, "HTTPRoute", "other", "late", {
      spec: { parentRefs: [{ name: "web" }], rules: [{}] },
    });
    api.put(httpRoutes, route);
    const statusOfRoute = () =>
      controller.end() ?? JSON.stringify(api.get(httpRoutes, "other", "late")?.["status"] ?? "");
    await expect.poll(statusOfRoute, { timeout: 180_000, interval: 100 }).toMatch(/Accepted","status":"True|^SIG/);
    expect(statusOfRoute()).toContain("Accepted");
  },
);

test("the controller survives 200,000 ServiceAccounts with the label of its own objects", {
  timeout: 420_000,
}, async () => {
  const account = (index: number) => object("v1", "ServiceAccount", "crowd", `r${index}`, {}, owned);
  const started = await startLimitedController((api) => putAll(api, "/api/v1/serviceaccounts", 200_000, account));
  if (started === undefined) return;
  const { api, controller } = started;
  const status = () => controller.end() ?? JSON.stringify(api.get(gateways, "other", "web")?.["status"] ?? "");
  await expect.poll(status, { timeout: 180_000, interval: 500 }).toMatch(/Programmed|^SIG/);
  expect(status()).toContain("Programmed");
});
