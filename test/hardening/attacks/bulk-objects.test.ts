/**
 * One namespace has thousands of objects that no other object refers to. The controller and the proxies of another
 * namespace stay ready, use at most 64 MiB for these objects, and apply changes of other objects within seconds.
 */
import { test } from "vitest";
import type { KubeObject } from "../../../proxy/src/kube/object.ts";
import { expectUnaffected, object, putAll, startBystander } from "../support/bystander.ts";
import { gatewayApi, proxyApi } from "../../support/api-versions.ts";

const maxGrowthBytes = 64 * 1024 * 1024;

const endpoints = Array.from({ length: 1_000 }, (_, index) => ({
  addresses: [`10.0.${index >> 8}.${index & 255}`],
  conditions: { ready: true, serving: true, terminating: false },
  nodeName: "node-1",
  targetRef: {
    kind: "Pod",
    namespace: "crowd",
    name: `pod-${index}-abcdef`,
    uid: "6f0cbd1c-1111-2222-3333-444455556666",
  },
  zone: "zone-a",
}));

const bulks: readonly (readonly [string, number, string, (index: number) => KubeObject])[] = [
  [
    "EndpointSlices of 1,000 endpoints",
    100,
    "/apis/discovery.k8s.io/v1/endpointslices",
    (index) => ({
      ...object("discovery.k8s.io/v1", "EndpointSlice", "crowd", `s${index}`, {}),
      metadata: { name: `s${index}`, namespace: "crowd", labels: { "kubernetes.io/service-name": `s${index}` } },
      ...{ addressType: "IPv4", endpoints, ports: [{ name: "", port: 80, protocol: "TCP" }] },
    }),
  ],
  [
    "Services",
    2_000,
    "/api/v1/services",
    (index) => object("v1", "Service", "crowd", `s${index}`, { spec: { ports: [{ port: 80, protocol: "TCP" }] } }),
  ],
  [
    "ReferenceGrants",
    2_000,
    `/apis/${gatewayApi}/referencegrants`,
    (index) =>
      object(gatewayApi, "ReferenceGrant", "crowd", `g${index}`, {
        spec: {
          from: Array.from({ length: 16 }, (_, each) => ({
            group: "gateway.networking.k8s.io",
            kind: "HTTPRoute",
            namespace: `n${each}`,
          })),
          to: Array.from({ length: 16 }, (_, each) => ({ group: "", kind: "Service", name: `s${each}` })),
        },
      }),
  ],
  [
    "Backends",
    2_000,
    `/apis/${proxyApi}/backends`,
    (index) =>
      object(proxyApi, "Backend", "crowd", `b${index}`, {
        spec: { ai: { provider: { openai: {} }, auth: { secretRef: { name: `key-${index}` } } } },
      }),
  ],
  [
    "Gateways",
    500,
    `/apis/${gatewayApi}/gateways`,
    (index) =>
      object(gatewayApi, "Gateway", "crowd", `g${index}`, {
        spec: { gatewayClassName: "gateway-proxy", listeners: [{ name: "http", port: 80, protocol: "HTTP" }] },
      }),
  ],
  [
    "policies",
    2_000,
    `/apis/${proxyApi}/proxypolicies`,
    (index) =>
      object(proxyApi, "ProxyPolicy", "crowd", `p${index}`, {
        spec: {
          targetRefs: [{ group: "gateway.networking.k8s.io", kind: "Gateway", name: "nowhere" }],
          traffic: { rateLimit: { local: [{ requests: 1, unit: "Minutes" }] } },
        },
      }),
  ],
];

test.each(bulks)(
  "%s of one namespace do not affect another",
  async (_, count, collection, make) => {
    await expectUnaffected(await startBystander(), maxGrowthBytes, (api) => putAll(api, collection, count, make));
  },
  500_000,
);
