/**
 * A namespace with a Gateway has more Services than the memory of its proxies has room for. A proxy that starts does
 * not know its own Service then, and thus not how many replicas there are that divide a limit.
 */
import { expect, test } from "vitest";
import { freePort } from "../../support/free-port.ts";
import { gatewayApi, proxyApi } from "../../support/api-versions.ts";
import { startObjectApiServer } from "../../support/object-api-server.ts";
import { programFile } from "../../support/program-file.ts";
import { object, putAll } from "../support/bystander.ts";
import { startWatched } from "../support/watched-process.ts";

const services = "/api/v1/services";
const ofGateway = { group: "gateway.networking.k8s.io", kind: "Gateway", name: "web" };
const service = (name: string, labels: object = {}) =>
  object("v1", "Service", "default", name, { spec: { ports: [{ port: 80, protocol: "TCP" }] } }, { labels });

/** Starts a proxy, and returns how many of five requests it permits under a limit of 8 that two replicas divide. */
async function permittedBeside(crowd: number): Promise<number> {
  const [api, port] = [await startObjectApiServer(), await freePort()];
  const put = (plural: string, kind: string, name: string, spec: object, namespace = "default") =>
    api.put(`/apis/${gatewayApi}/${plural}`, object(gatewayApi, kind, namespace, name, { spec }));
  put("gatewayclasses", "GatewayClass", "gateway-proxy", { controllerName: "gatewayproxy.dev/controller" }, "");
  const listeners = [{ name: "http", port, protocol: "HTTP" }];
  put("gateways", "Gateway", "web", { gatewayClassName: "gateway-proxy", listeners });
  const redirect = { type: "RequestRedirect", requestRedirect: { statusCode: 302 } };
  put("httproutes", "HTTPRoute", "web", { parentRefs: [{ name: "web" }], rules: [{ filters: [redirect] }] });
  const local = [{ requests: 8, unit: "Hours", shareAcrossReplicas: true }];
  const limit = { targetRefs: [ofGateway], traffic: { rateLimit: { local } } };
  api.put(`/apis/${proxyApi}/proxypolicies`, object(proxyApi, "ProxyPolicy", "default", "limit", { spec: limit }));
  await putAll(api, services, crowd, (index) => service(`crowd-${index}`));
  api.put(services, service("web-gateway-proxy", { "gateway.networking.k8s.io/gateway-name": "web" }));
  const slice = object("discovery.k8s.io/v1", "EndpointSlice", "default", "web", {
    ...{ addressType: "IPv4", ports: [{ name: "", port: 80, protocol: "TCP" }] },
    endpoints: ["192.0.2.1", "192.0.2.2"].map((address) => ({ addresses: [address] })),
  });
  const labels = { "kubernetes.io/service-name": "web-gateway-proxy" };
  api.put("/apis/discovery.k8s.io/v1/endpointslices", {
    ...slice,
    metadata: { name: "web", namespace: "default", labels },
  });
  await startWatched({
    main: programFile("proxy", "proxy"),
    args: [
      ...["--kubernetes", "--gateway", "default/web", "--workers", "1", "--access-log", "off"],
      ...["--listen-address", "127.0.0.1", "--admin-address", "127.0.0.1:0"],
    ],
    env: { KUBECONFIG: api.kubeconfig, NODE_OPTIONS: "--max-old-space-size=128" },
    threads: 2,
  });
  const url = `http://127.0.0.1:${port}/`;
  const request = () =>
    fetch(url, { redirect: "manual" }).then(
      ({ status }) => status,
      () => 0,
    );
  const statuses: number[] = [];
  await expect
    .poll(async () => statuses.push(await request()) && statuses.includes(302), { timeout: 60_000 })
    .toBe(true);
  for (let times = 0; times < 9; times++) statuses.push(await request());
  return statuses.filter((status) => status === 302).length;
}

test("a proxy that knows no endpoints of its own permits no more than its share of a limit", {
  timeout: 120_000,
}, async () => {
  expect(await permittedBeside(0)).toBe(4);
  expect(await permittedBeside(10_000)).toBe(1);
});
