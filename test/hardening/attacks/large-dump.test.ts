/** `/config_dump` of thousands of routes or endpoints blocks no event loop longer than other responses. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import type { KubeObject } from "../../../proxy/src/kube/object.ts";
import { freePort } from "../../support/free-port.ts";
import { programFile } from "../../support/program-file.ts";
import { backendManifest, backendRef, gatewayManifest, manifests, routeManifest } from "../../support/gateway.ts";
import { startObjectApiServer } from "../../support/object-api-server.ts";
import { startWatched } from "../support/watched-process.ts";
import { gatewayApi } from "../../support/api-versions.ts";

const mainFile = programFile("proxy", "proxy");
const routes = 5_000;
const maxHeldMs = 100;

function dumpOf(adminPort: number): Promise<string> {
  return fetch(`http://127.0.0.1:${adminPort}/config_dump`).then(
    (response) => response.text(),
    () => "",
  );
}

test("a dump of 5,000 routes is built and sent in turns of the event loop", async () => {
  const [port, adminPort] = [await freePort(), await freePort()];
  const folder = await mkdtemp(join(tmpdir(), "dump-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const all = Array.from({ length: routes }, (_, index) =>
    routeManifest(`r${index}`, [
      `{ matches: [{ path: { type: PathPrefix, value: /p${index} } }], backendRefs: [${backendRef("b")}] }`,
    ]),
  );
  await writeFile(join(folder, "all.yaml"), manifests(gatewayManifest(port), backendManifest("b", 9), ...all));
  const proxy = await startWatched({
    main: mainFile,
    args: [
      ...["--config-dir", folder, "--workers", "1", "--access-log", "off", "--listen-address", "127.0.0.1"],
      ...["--admin-address", `127.0.0.1:${adminPort}`],
    ],
    env: {},
    threads: 2,
  });
  const dump = () => dumpOf(adminPort);
  await expect.poll(async () => (await dump()).includes(`"default/r${routes - 1}"`), { timeout: 90_000 }).toBe(true);
  await dump();
  await proxy.longestHeldMs();
  const text = await dump();
  expect((JSON.parse(text) as { routes: unknown[] }).routes).toHaveLength(routes);
  expect(await proxy.longestHeldMs()).toBeLessThan(maxHeldMs);
}, 300_000);

const services = 100;
const endpointsOfService = 1_000;

function object(apiVersion: string, kind: string, name: string, fields: object, labels = {}): KubeObject {
  return { apiVersion, kind, metadata: { name, namespace: "default", labels }, ...fields };
}

/** The endpoints of a Service. */
function sliceOf(service: number): KubeObject {
  const endpoints = Array.from({ length: endpointsOfService }, (_, at) => ({
    addresses: [`10.${service}.${at >> 8}.${at & 255}`],
    conditions: { ready: true },
  }));
  const fields = { addressType: "IPv4", endpoints, ports: [{ name: "", port: 80, protocol: "TCP" }] };
  const labels = { "kubernetes.io/service-name": `s${service}` };
  return object("discovery.k8s.io/v1", "EndpointSlice", `s${service}`, fields, labels);
}

test("a dump of 100,000 endpoints is collected from the workers in turns of the event loop", async () => {
  const api = await startObjectApiServer();
  const [port, adminPort] = [await freePort(), await freePort()];
  const controllerName = "gatewayproxy.dev/controller";
  api.put(`/apis/${gatewayApi}/gatewayclasses`, {
    apiVersion: gatewayApi,
    kind: "GatewayClass",
    metadata: { name: "gateway-proxy" },
    spec: { controllerName },
  });
  const listeners = [{ name: "http", port, protocol: "HTTP" }];
  const spec = { gatewayClassName: "gateway-proxy", listeners };
  api.put(`/apis/${gatewayApi}/gateways`, object(gatewayApi, "Gateway", "web", { spec }));
  for (let service = 0; service < services; service++) {
    const ports = [{ port: 80, protocol: "TCP" }];
    api.put("/api/v1/services", object("v1", "Service", `s${service}`, { spec: { ports } }));
    api.put("/apis/discovery.k8s.io/v1/endpointslices", sliceOf(service));
  }
  const references = Array.from({ length: services }, (_, service) => ({ name: `s${service}`, port: 80 }));
  const rules = Array.from({ length: services / 10 }, (_, at) => ({
    matches: [{ path: { type: "PathPrefix", value: `/p${at}` } }],
    backendRefs: references.slice(at * 10, at * 10 + 10),
  }));
  const route = { spec: { parentRefs: [{ name: "web" }], rules } };
  api.put(`/apis/${gatewayApi}/httproutes`, object(gatewayApi, "HTTPRoute", "all", route));
  const proxy = await startWatched({
    main: mainFile,
    args: [
      ...["--kubernetes", "--gateway", "default/web", "--workers", "1", "--access-log", "off"],
      ...["--listen-address", "127.0.0.1", "--admin-address", `127.0.0.1:${adminPort}`],
    ],
    env: { KUBECONFIG: api.kubeconfig },
    threads: 2,
  });
  const last = `"10.${services - 1}.0.1:80"`;
  await expect.poll(async () => (await dumpOf(adminPort)).includes(last), { timeout: 90_000 }).toBe(true);
  await dumpOf(adminPort);
  await proxy.longestHeldMs();
  const text = await dumpOf(adminPort);
  expect(text.split('"address":').length - 1).toBeGreaterThanOrEqual(services * endpointsOfService);
  expect(await proxy.longestHeldMs()).toBeLessThan(maxHeldMs);
}, 300_000);
