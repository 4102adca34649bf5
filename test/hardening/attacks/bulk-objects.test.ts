/**
 * One namespace has thousands of objects that no other object refers to. The controller and the proxies of another
 * namespace stay ready, use at most 64 MiB for these objects, and apply changes of other objects within seconds.
 */
import { expect, test } from "vitest";
import type { KubeObject } from "../../../proxy/src/kube/object.ts";
import { startObjectApiServer } from "../../support/object-api-server.ts";
import { freePort } from "../../support/free-port.ts";
import { programFile } from "../../support/program-file.ts";
import { startWatched } from "../support/watched-process.ts";

const maxGrowthBytes = 64 * 1024 * 1024;
/** The time until an edit in another namespace is in effect, and its status is written. */
const timeoutMs = 20_000;

const gatewayApi = "gateway.networking.k8s.io/v1";
const proxyApi = "gatewayproxy.dev/v1alpha1";

function object(apiVersion: string, kind: string, namespace: string, name: string, fields: object): KubeObject {
  return { apiVersion, kind, metadata: { name, ...(namespace !== "" && { namespace }) }, ...fields };
}

const routes = `/apis/${gatewayApi}/httproutes`;
const marker = (mark: string): KubeObject =>
  object(gatewayApi, "HTTPRoute", "default", "marker", {
    spec: {
      parentRefs: [{ name: "web" }],
      rules: [
        {
          filters: [
            { type: "ResponseHeaderModifier", responseHeaderModifier: { set: [{ name: "x-case", value: mark }] } },
          ],
        },
      ],
    },
  });

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
    const api = await startObjectApiServer();
    const [port, adminPort] = [await freePort(), await freePort()];
    api.put(
      `/apis/${gatewayApi}/gatewayclasses`,
      object(gatewayApi, "GatewayClass", "", "gateway-proxy", {
        spec: { controllerName: "gatewayproxy.dev/controller" },
      }),
    );
    api.put(
      `/apis/${gatewayApi}/gateways`,
      object(gatewayApi, "Gateway", "default", "web", {
        spec: { gatewayClassName: "gateway-proxy", listeners: [{ name: "http", port, protocol: "HTTP" }] },
      }),
    );
    api.put(routes, marker("first"));
    const env = { KUBECONFIG: api.kubeconfig, UV_THREADPOOL_SIZE: "1" };
    const [proxy, controller] = await Promise.all([
      startWatched({
        main: programFile("proxy", "proxy"),
        args: [
          ...["--kubernetes", "--gateway", "default/web", "--workers", "1", "--access-log", "off"],
          ...["--listen-address", "127.0.0.1", "--admin-address", `127.0.0.1:${adminPort}`],
        ],
        env,
        threads: 2,
      }),
      startWatched({
        main: programFile("proxy", "controller"),
        args: ["--proxy-image", "test/proxy:1", "--namespace", "system", "--identity", "one"],
        env,
        threads: 1,
      }),
    ]);
    const served = (): Promise<string> =>
      fetch(`http://127.0.0.1:${adminPort}/config_dump`).then(
        (response) => response.text(),
        () => "",
      );
    const hasStatus = (): boolean => {
      const route = api.get(routes, "default", "marker");
      const { generation } = (route?.["metadata"] ?? {}) as { generation?: number };
      return JSON.stringify(route?.["status"] ?? "").includes(`"observedGeneration":${String(generation)}`);
    };
    /** Resolves when an edit in the other namespace is served and has its status. */
    const effective = async (mark: string): Promise<void> => {
      api.put(routes, marker(mark));
      const isServed = async (): Promise<boolean> => (await served()).includes(`"${mark}"`);
      await expect.poll(async () => hasStatus() && (await isServed()), { timeout: timeoutMs, interval: 20 }).toBe(true);
    };
    for (let times = 0; times < 3; times++) await effective(`warm-${times}`);
    const before = [await proxy.heapBytes(), await controller.heapBytes()];
    for (let index = 0; index < count; index++) {
      api.put(collection, make(index));
      // The programs read during the loop.
      if (index % 20 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    await effective("during");
    await effective("after");
    for (const [index, each] of [proxy, controller].entries()) {
      expect(each.hasEnded(), each.output()).toBe(false);
      expect((await fetch(`${each.readiness}/healthz/ready`)).status).toBe(200);
      expect((await each.heapBytes()) - (before[index] ?? 0)).toBeLessThan(maxGrowthBytes);
    }
  },
  170_000,
);
