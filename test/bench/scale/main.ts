/**
 * The cost of one change among many routes: `npm run bench:scale -- [--routes 5000] [--changes 10] [--cpu-prof FOLDER]`.
 * A controller and a proxy with one worker read a cluster of routes in 50 namespaces, each with a Service and an endpoint
 * of its own. One route or one endpoint is changed at a time. The table has the processor time of both programs for each
 * change, until they are idle again, and the time until the change is served. The API server is one in this process,
 * without validation and without its own cost.
 */
import { createServer, request } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import { parseArgs } from "node:util";
import { fieldsOf, type KubeObject, objectsOf } from "../../../proxy/src/kube/object.ts";
import { collectionPaths, type WholeKind } from "../../../proxy/src/source/kubernetes/watched-kinds.ts";
import { freePort } from "../../support/free-port.ts";
import { openObjectApiServer } from "../../support/object-api-server.ts";
import { programFile } from "../../support/program-file.ts";
import { type RunningProgram, startProgram } from "../process.ts";

const { values } = parseArgs({
  options: {
    routes: { type: "string", default: "5000" },
    changes: { type: "string", default: "10" },
    "cpu-prof": { type: "string" },
  },
});
const routes = Number(values.routes);
const changes = Number(values.changes);
const namespaces = 50;
const profile = values["cpu-prof"];
const profiling = profile === undefined ? [] : ["--cpu-prof", "--cpu-prof-dir", profile];

const api = await openObjectApiServer();
const backend = createServer((incoming, response) => response.end(String(incoming.headers["x-version"]))).listen(
  0,
  "127.0.0.1",
);
await new Promise((resolve) => backend.once("listening", resolve));
const address = backend.address();
const backendPort = typeof address === "object" && address !== null ? address.port : 0;
const port = await freePort();

function put(kind: WholeKind, apiVersion: string, metadata: object, rest: object): void {
  const object: KubeObject = { apiVersion, kind, metadata, ...rest };
  api.put(collectionPaths(kind)[0], object);
}

const gatewayApi = "gateway.networking.k8s.io/v1";
const nameOf = (n: number) => ({ namespace: `n${n % namespaces}`, name: `r${n}` });

function putRoute(n: number, version: string): void {
  const { namespace, name } = nameOf(n);
  const set = [{ name: "x-version", value: version }];
  const filters = [{ type: "RequestHeaderModifier", requestHeaderModifier: { set } }];
  const rules = [{ filters, backendRefs: [{ name, port: 80 }] }];
  const parentRefs = [{ name: "web", namespace: "infra" }];
  const spec = { parentRefs, hostnames: [`${name}.test`], rules };
  // An edit of the spec keeps the status.
  const status = api.get(collectionPaths("HTTPRoute")[0], namespace, name)?.["status"];
  put("HTTPRoute", gatewayApi, { namespace, name }, { spec, ...(status !== undefined && { status }) });
}

/** @param extra the number of further endpoints, which are not ready. */
function putEndpoints(n: number, extra: number): void {
  const { namespace, name } = nameOf(n);
  const labels = { "kubernetes.io/service-name": name };
  const more = Array.from({ length: extra }, (_, at) => ({
    addresses: [`10.0.0.${at}`],
    conditions: { ready: false },
  }));
  const endpoints = [{ addresses: ["127.0.0.1"], conditions: { ready: true } }, ...more];
  const ports = [{ port: backendPort }];
  put("EndpointSlice", "discovery.k8s.io/v1", { namespace, name, labels }, { addressType: "IPv4", ports, endpoints });
}

put("GatewayClass", gatewayApi, { name: "gateway-proxy" }, { spec: { controllerName: "gatewayproxy.dev/controller" } });
const allowedRoutes = { namespaces: { from: "All" } };
const listeners = [{ name: "http", port, protocol: "HTTP", allowedRoutes }];
put(
  "Gateway",
  gatewayApi,
  { namespace: "infra", name: "web" },
  { spec: { gatewayClassName: "gateway-proxy", listeners } },
);
for (let n = 0; n < namespaces; n++) put("Namespace", "v1", { name: `n${n}` }, {});
for (let n = 0; n < routes; n++) {
  const { namespace, name } = nameOf(n);
  put("Service", "v1", { namespace, name }, { spec: { ports: [{ port: 80 }] } });
  putEndpoints(n, 0);
  putRoute(n, "0");
}

async function start(
  image: "proxy",
  program: "proxy" | "controller",
  args: readonly string[],
): Promise<RunningProgram> {
  const pages = [
    "--stats-address",
    `127.0.0.1:${await freePort()}`,
    "--readiness-address",
    `127.0.0.1:${await freePort()}`,
  ];
  const command = [...profiling, programFile(image, program), ...pages, ...args];
  return startProgram(program, process.execPath, command, { KUBECONFIG: api.kubeconfig });
}

const controller = await start("proxy", "controller", ["--proxy-image", "proxy:1", "--namespace", "infra"]);
const proxy = await start("proxy", "proxy", [
  ...["--kubernetes", "--gateway", "infra/web", "--workers", "1", "--listen-address", "127.0.0.1"],
  ...["--admin-address", "off", "--access-log", "off", "--allow-backend-address", `127.0.0.1:${backendPort}`],
]);
const programs = [controller, proxy];

/** The `x-version` that the backend of a route gets; undefined for any other response. */
function servedVersion(n: number): Promise<string | undefined> {
  return new Promise((resolve) => {
    const sent = request({ host: "127.0.0.1", port, headers: { host: `${nameOf(n).name}.test` } }, (response) => {
      response.setEncoding("utf8");
      let text = "";
      response.on("data", (chunk: string) => (text += chunk));
      response.on("end", () => resolve(response.statusCode === 200 ? text : undefined));
    });
    sent.on("error", () => resolve(undefined));
    sent.end();
  });
}

function cpuMs(program: RunningProgram): number {
  const { userUs, systemUs } = program.cpu();
  return (userUs + systemUs) / 1_000;
}

function assertRunning(): void {
  for (const program of programs) {
    if (program.hasEnded()) throw new Error(`${program.name} ended:\n${program.output()}`);
  }
}

/** Resolves when both programs have used little processor time for a second. */
async function idle(): Promise<void> {
  for (;;) {
    const before = programs.map(cpuMs);
    await delay(1_000);
    assertRunning();
    if (programs.every((program, at) => cpuMs(program) - (before[at] ?? 0) < 30)) return;
  }
}

function isAccepted(n: number): boolean {
  const { namespace, name } = nameOf(n);
  const status = fieldsOf(api.get(collectionPaths("HTTPRoute")[0], namespace, name)?.["status"]);
  return objectsOf(status["parents"]).length > 0;
}

interface Cost {
  readonly controller: number;
  readonly proxy: number;
  readonly served: number;
}

async function measure(change: (at: number) => (() => Promise<boolean>) | undefined): Promise<readonly Cost[]> {
  const costs: Cost[] = [];
  for (let at = 1; at <= changes; at++) {
    const before = programs.map(cpuMs);
    const startMs = performance.now();
    const isServed = change(at);
    while (isServed !== undefined && !(await isServed())) await delay(10);
    const served = performance.now() - startMs;
    await idle();
    const [ofController = 0, ofProxy = 0] = programs.map((program, index) => cpuMs(program) - (before[index] ?? 0));
    costs.push({ controller: ofController, proxy: ofProxy, served });
  }
  return costs;
}

function row(title: string, costs: readonly Cost[], hasServed: boolean): string {
  const median = (of: (cost: Cost) => number) => costs.map(of).sort((a, b) => a - b)[Math.floor(costs.length / 2)] ?? 0;
  const served = hasServed ? `${median(({ served: ms }) => ms).toFixed(0)} ms` : "–";
  const cpu = [median(({ controller: ms }) => ms), median(({ proxy: ms }) => ms)].map((ms) => `${ms.toFixed(0)} ms`);
  return `| ${title} | ${cpu.join(" | ")} | ${served} |`;
}

try {
  while ((await servedVersion(routes - 1)) === undefined || !isAccepted(routes - 1)) {
    await delay(200);
    assertRunning();
  }
  await idle();
  const sizes = programs.map((program) => `${program.name} ${(program.residentBytes() / 1e6).toFixed(0)} MB`);
  const routeEdits = await measure((at) => {
    putRoute(at, String(at));
    return async () => (await servedVersion(at)) === String(at);
  });
  const endpointChanges = await measure((at) => {
    putEndpoints(at, at);
    return undefined;
  });
  console.log(`${routes} routes; ready: ${programs.map((each, n) => `${each.name} ${sizes[n]?.split(" ")[1]} MB`).join(", ")}
| change (median of ${changes}) | CPU controller | CPU proxy | served after |
| --- | --- | --- | --- |
${row("one route", routeEdits, true)}
${row("one endpoint", endpointChanges, false)}`);
} finally {
  for (const program of programs) await program.stop();
  backend.close();
  await api.close();
}
