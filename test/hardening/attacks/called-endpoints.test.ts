/**
 * A route refers to 100,000 endpoints, which the proxy calls: their memory, and the turns in which they are applied.
 */
import { expect, test } from "vitest";
import type { KubeObject } from "../../../proxy/src/kube/object.ts";
import { freePort } from "../../support/free-port.ts";
import { programFile } from "../../support/program-file.ts";
import { startObjectApiServer } from "../../support/object-api-server.ts";
import { startWatched } from "../support/watched-process.ts";
import { gatewayApi } from "../../support/api-versions.ts";

const maxGrowthBytes = 64 * 1024 * 1024;
const maxHeldMs = 100;
const services = 100;
const endpointsOfService = 1_000;
const slicesPath = "/apis/discovery.k8s.io/v1/endpointslices";

function object(apiVersion: string, kind: string, name: string, fields: object, labels = {}): KubeObject {
  return { apiVersion, kind, metadata: { name, namespace: "default", labels }, ...fields };
}

/** The endpoints of a Service, as the controller of Kubernetes lists them. */
function sliceOf(service: number, lastAddress = 0): KubeObject {
  const endpoints = Array.from({ length: endpointsOfService }, (_, at) => ({
    addresses: [`10.${service}.${at >> 8}.${at === 0 ? lastAddress : at & 255}`],
    conditions: { ready: true, serving: true, terminating: false },
    nodeName: "node-1",
    targetRef: {
      kind: "Pod",
      namespace: "default",
      name: `s${service}-7d4f8c9b6d-${String(at).padStart(5, "0")}`,
      uid: "6f0cbd1c-1111-2222-3333-444455556666",
    },
    zone: "zone-a",
  }));
  const fields = { addressType: "IPv4", endpoints, ports: [{ name: "", port: 80, protocol: "TCP" }] };
  return object("discovery.k8s.io/v1", "EndpointSlice", `s${service}`, fields, {
    "kubernetes.io/service-name": `s${service}`,
  });
}

test("100,000 endpoints of one namespace take at most 64 MiB of a proxy, and no turn of 100 ms", async () => {
  const api = await startObjectApiServer();
  const [port, adminPort] = [await freePort(), await freePort()];
  api.put(`/apis/${gatewayApi}/gatewayclasses`, {
    apiVersion: gatewayApi,
    kind: "GatewayClass",
    metadata: { name: "gateway-proxy" },
    spec: { controllerName: "gatewayproxy.dev/controller" },
  });
  const listeners = [{ name: "http", port, protocol: "HTTP" }];
  const spec = { gatewayClassName: "gateway-proxy", listeners };
  api.put(`/apis/${gatewayApi}/gateways`, object(gatewayApi, "Gateway", "web", { spec }));
  for (let service = 0; service < services; service++) {
    const ports = [{ port: 80, protocol: "TCP" }];
    api.put("/api/v1/services", object("v1", "Service", `s${service}`, { spec: { ports } }));
  }
  const references = Array.from({ length: services }, (_, service) => ({ name: `s${service}`, port: 80 }));
  const rules = Array.from({ length: services / 10 }, (_, at) => ({
    matches: [{ path: { type: "PathPrefix", value: `/p${at}` } }],
    backendRefs: references.slice(at * 10, at * 10 + 10),
  }));
  api.put(
    `/apis/${gatewayApi}/httproutes`,
    object(gatewayApi, "HTTPRoute", "all", { spec: { parentRefs: [{ name: "web" }], rules } }),
  );
  const proxy = await startWatched({
    main: programFile("proxy", "proxy"),
    args: [
      ...["--kubernetes", "--gateway", "default/web", "--workers", "1", "--access-log", "off"],
      ...["--listen-address", "127.0.0.1", "--admin-address", `127.0.0.1:${adminPort}`],
    ],
    env: { KUBECONFIG: api.kubeconfig, UV_THREADPOOL_SIZE: "1" },
    threads: 2,
  });
  const dump = (): Promise<string> =>
    fetch(`http://127.0.0.1:${adminPort}/config_dump`).then(
      (response) => response.text(),
      () => "",
    );
  /** Resolves when a worker calls this address. */
  const called = (address: string): Promise<void> =>
    expect
      .poll(async () => (await dump()).includes(`"${address}:80"`), { timeout: 90_000, interval: 3_000 })
      .toBe(true);
  await expect.poll(async () => (await dump()).includes('"default/all"'), { timeout: 90_000 }).toBe(true);
  const before = await proxy.heapBytes();
  // While a configuration is applied, the one before it is in memory, too.
  const growth = async (): Promise<number> => (await proxy.heapBytes()) - before;
  const isBounded = () => expect.poll(growth, { timeout: 120_000, interval: 1_000 }).toBeLessThan(maxGrowthBytes);
  await proxy.longestHeldMs();
  for (let service = 0; service < services; service++) api.put(slicesPath, sliceOf(service));
  await called(`10.${services - 1}.0.1`);
  await isBounded();
  // A rollout replaces an endpoint of each Service.
  for (let service = 0; service < services; service++) api.put(slicesPath, sliceOf(service, 250));
  await called(`10.${services - 1}.0.250`);
  await isBounded();
  expect(proxy.hasEnded(), proxy.output()).toBe(false);
  expect(await proxy.longestHeldMs()).toBeLessThan(maxHeldMs);
}, 300_000);
