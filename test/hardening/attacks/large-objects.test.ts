/**
 * One namespace has objects as large as the API server accepts, most of whose content the gateway does not use. The
 * controller and the proxies of another namespace keep the part that they use.
 */
import { expect, test } from "vitest";
import type { KubeObject } from "../../../proxy/src/kube/object.ts";
import { expectUnaffected, object, putAll, startBystander } from "../support/bystander.ts";
import { times } from "../support/tenant-objects.ts";
import { gatewayApi, proxyApi } from "../../support/api-versions.ts";

const maxGrowthBytes = 64 * 1024 * 1024;
const maxHeldMs = 100;
/** With 1.2 MB each they are 240 MB. */
const count = 200;

/** etcd accepts 1.5 MiB. */
const textOf = (length: number): string => "x".repeat(length);
/** Labels have no bound but that of the object. */
const manyLabels = (index: number): object =>
  Object.fromEntries(
    times(10_000, (at) => [`example.com/label-${index}-${at}-${textOf(30)}`, `value-${at}-${textOf(40)}`]),
  );

/** As many as an object of 1.5 MiB has place for. */
const shortKeys = Object.fromEntries(times(120_000, (at) => [at.toString(36), ""]));

/** A regular expression of which the size is beyond the bound, so that the parser reports each. */
const largePattern = "x{1000}{1000}";

/** Those take the API server of the test long to write. */
const fewer = 60;

const attacks: readonly (readonly [string, string, (index: number) => KubeObject, number?])[] = [
  [
    "Services with thousands of ports",
    "/api/v1/services",
    (index) =>
      object("v1", "Service", "crowd", `s${index}`, {
        spec: { ports: times(15_000, (at) => ({ name: `p${at}`, port: 1 + at, targetPort: 1 + at, protocol: "TCP" })) },
      }),
  ],
  [
    "EndpointSlices with thousands of ports",
    "/apis/discovery.k8s.io/v1/endpointslices",
    (index) =>
      object(
        "discovery.k8s.io/v1",
        "EndpointSlice",
        "crowd",
        `s${index}`,
        {
          addressType: "IPv4",
          endpoints: [],
          ports: times(20_000, (at) => ({ name: `port-${at}`, port: 1 + at, protocol: "TCP" })),
        },
        { labels: { "kubernetes.io/service-name": `s${index}` } },
      ),
  ],
  [
    "Services with thousands of labels",
    "/api/v1/services",
    (index) =>
      object(
        "v1",
        "Service",
        "crowd",
        `s${index}`,
        { spec: { ports: [{ port: 80, protocol: "TCP" }] } },
        { labels: manyLabels(index) },
      ),
  ],
  [
    "Services with thousands of selectors",
    "/api/v1/services",
    (index) =>
      object("v1", "Service", "crowd", `s${index}`, {
        spec: { ports: [{ port: 80, protocol: "TCP" }], selector: manyLabels(index) },
      }),
  ],
  [
    "Services with a hundred thousand short labels",
    "/api/v1/services",
    (index) =>
      object(
        "v1",
        "Service",
        "crowd",
        `s${index}`,
        { spec: { ports: [{ port: 80, protocol: "TCP" }] } },
        { labels: shortKeys },
      ),
    fewer,
  ],
  [
    "Services with a hundred thousand short selectors",
    "/api/v1/services",
    (index) =>
      object("v1", "Service", "crowd", `s${index}`, {
        spec: { ports: [{ port: 80, protocol: "TCP" }], selector: shortKeys },
      }),
    fewer,
  ],
  [
    "HTTPRoutes with thousands of labels",
    `/apis/${gatewayApi}/httproutes`,
    (index) =>
      object(
        gatewayApi,
        "HTTPRoute",
        "crowd",
        `r${index}`,
        { spec: { parentRefs: [{ name: "nowhere" }], rules: [{}] } },
        { labels: manyLabels(index) },
      ),
  ],
  [
    "HTTPRoutes with thousands of errors",
    `/apis/${gatewayApi}/httproutes`,
    (index) =>
      object(gatewayApi, "HTTPRoute", "crowd", `r${index}`, {
        spec: {
          parentRefs: [{ name: "nowhere" }],
          rules: times(16, () => ({
            matches: times(64, () => ({
              headers: times(16, (at) => ({ type: "RegularExpression", name: `h${at}`, value: largePattern })),
            })),
          })),
        },
      }),
  ],
  [
    "rejected ProxyPolicies with large metadata",
    `/apis/${proxyApi}/proxypolicies`,
    (index) =>
      object(
        proxyApi,
        "ProxyPolicy",
        "crowd",
        `p${index}`,
        {
          spec: {
            targetRefs: [{ group: "gateway.networking.k8s.io", kind: "Gateway", name: "nowhere" }],
            traffic: { rateLimit: { local: [{ requests: 1, unit: "Minutes", key: "(" }] } },
          },
        },
        {
          annotations: { note: textOf(250_000) },
          managedFields: [
            {
              manager: "other",
              fieldsV1: Object.fromEntries(times(5_000, (at) => [`f:field-${at}-${textOf(60)}`, {}])),
            },
          ],
        },
      ),
  ],
  [
    "HTTPRoutes with large statuses",
    `/apis/${gatewayApi}/httproutes`,
    (index) =>
      object(gatewayApi, "HTTPRoute", "crowd", `r${index}`, {
        spec: { parentRefs: [{ name: "nowhere" }], rules: [{}] },
        status: {
          parents: times(8, (at) => ({
            parentRef: { name: `p${at}` },
            controllerName: "example.com/other",
            conditions: times(5, (each) => ({
              type: `C${each}`,
              status: "True",
              reason: "R",
              message: textOf(30_000),
              lastTransitionTime: "2026-01-01T00:00:00Z",
            })),
          })),
        },
      }),
  ],
  [
    "Role bindings with the label of the controller's objects",
    "/apis/rbac.authorization.k8s.io/v1/rolebindings",
    (index) =>
      object(
        "rbac.authorization.k8s.io/v1",
        "RoleBinding",
        "crowd",
        `b${index}`,
        {
          roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name: "r" },
          subjects: times(10_000, (at) => ({
            kind: "ServiceAccount",
            name: `account-${at}-${textOf(40)}`,
            namespace: "crowd",
          })),
        },
        { labels: { "app.kubernetes.io/managed-by": "gatewayproxy.dev" } },
      ),
  ],
  [
    "Services with the label of the controller's objects",
    "/api/v1/services",
    (index) =>
      object(
        "v1",
        "Service",
        "crowd",
        `s${index}`,
        { spec: { ports: [{ port: 80, protocol: "TCP" }] } },
        {
          labels: {
            "app.kubernetes.io/managed-by": "gatewayproxy.dev",
            "gateway.networking.k8s.io/gateway-name": "gone",
          },
          // Of an object of the tenant, so that no garbage collection removes it.
          ownerReferences: [{ apiVersion: "v1", kind: "ConfigMap", name: "owner", uid: "of-a-config-map" }],
          annotations: Object.fromEntries(times(4, (at) => [`note-${at}`, textOf(60_000)])),
          managedFields: [
            {
              manager: "other",
              fieldsV1: Object.fromEntries(times(8_000, (at) => [`f:field-${at}-${textOf(80)}`, {}])),
            },
          ],
        },
      ),
  ],
];

test("2,000 rejected routes that name the Gateway of another tenant", async () => {
  const bystander = await startBystander();
  const { proxy, controller, effective } = bystander;
  await expectUnaffected(bystander, maxGrowthBytes, (api) =>
    putAll(api, `/apis/${gatewayApi}/httproutes`, 2_000, (index) =>
      object(gatewayApi, "HTTPRoute", "crowd", `r${index}`, {
        spec: {
          parentRefs: [{ name: "web", namespace: "default" }],
          rules: times(16, () => ({ matches: [{ path: { value: "relative" } }] })),
        },
      }),
    ),
  );
  for (const each of [proxy, controller]) await each.longestHeldMs();
  for (let edit = 0; edit < 5; edit++) await effective(`edit-${edit}`);
  for (const each of [proxy, controller]) expect(await each.longestHeldMs()).toBeLessThan(maxHeldMs);
}, 500_000);

test.each(attacks.map(([name, collection, make, objects = count]) => [name, collection, make, objects] as const))(
  "%s",
  async (_, collection, make, objects) => {
    const bystander = await startBystander();
    const { proxy, controller } = bystander;
    for (const each of [proxy, controller]) await each.longestHeldMs();
    await expectUnaffected(bystander, maxGrowthBytes, (api) => putAll(api, collection, objects, make));
    for (const each of [proxy, controller]) expect(await each.longestHeldMs()).toBeLessThan(maxHeldMs);
  },
  500_000,
);
