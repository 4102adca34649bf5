/** The objects that the cases of `npm run bench:scale` create, and the requests by which they see what is served. */
import { request } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import type { RunningProgram } from "../process.ts";
import { type ApiClient, gatewayNamespace, type KubeObject, paths, type ScaleCluster } from "./cluster.ts";

/** The name of a route and of its Service. */
export interface ObjectName {
  readonly namespace: string;
  readonly name: string;
}

/** The parent of routes unless a case has another. */
const web = { name: "web", namespace: gatewayNamespace };

export const hostOf = ({ name, namespace }: ObjectName): string => `${name}.${namespace}.test`;

/**
 * A route with its own hostname. `/` leads to its Service. All else leads to the Backend `echo`, which responds with
 * `version`.
 */
export function routeOf(at: ObjectName, version: string, parent: KubeObject = web): KubeObject {
  const set = [{ name: "x-version", value: version }];
  const echo = { group: "gatewayproxy.dev", kind: "Backend", name: "echo" };
  return {
    apiVersion: "gateway.networking.k8s.io/v1",
    kind: "HTTPRoute",
    metadata: at,
    spec: {
      parentRefs: [parent],
      hostnames: [hostOf(at)],
      rules: [
        { matches: [{ path: { type: "Exact", value: "/" } }], backendRefs: [{ name: at.name, port: 80 }] },
        { filters: [{ type: "RequestHeaderModifier", requestHeaderModifier: { set } }], backendRefs: [echo] },
      ],
    },
  };
}

export function serviceOf({ namespace, name }: ObjectName): KubeObject {
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: { namespace, name },
    // Without a selector, the control plane does not write its EndpointSlices.
    spec: { ports: [{ name: "http", port: 80 }] },
  };
}

/** @param ready the number of endpoints. */
export function endpointsOf({ namespace, name }: ObjectName, ready: number): KubeObject {
  return {
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    metadata: { namespace, name, labels: { "kubernetes.io/service-name": name } },
    addressType: "IPv4",
    ports: [{ name: "http", port: 8080 }],
    endpoints: Array.from({ length: ready }, (_, n) => ({
      addresses: [`10.0.0.${n + 1}`],
      conditions: { ready: true },
    })),
  };
}

/** Creates a route; with its Service and endpoint if `hasService`. */
export async function createRoute(api: ApiClient, at: ObjectName, hasService: boolean): Promise<void> {
  if (hasService) {
    await api.create(paths.services(at.namespace), serviceOf(at));
    await api.create(paths.endpointSlices(at.namespace), endpointsOf(at, 1));
  }
  await api.create(paths.routes(at.namespace), routeOf(at, "1"));
}

/** Calls `work` for each item, for sixteen at a time. */
export async function forEachOf<Item>(items: readonly Item[], work: (item: Item) => Promise<unknown>): Promise<void> {
  const queue = items.values();
  const lane = async (): Promise<void> => {
    for (const item of queue) await work(item);
  };
  await Promise.all(Array.from({ length: 16 }, lane));
}

/** A response of the proxy; `status` is 0 if there is none. */
export interface Served {
  readonly status: number;
  readonly text: string;
}

/** Requests `/version` of a host, which the Backend `echo` serves. */
export function fetchVersion(port: number, host: string): Promise<Served> {
  return new Promise((resolve) => {
    const sent = request({ host: "127.0.0.1", port, path: "/version", headers: { host } }, (response) => {
      response.setEncoding("utf8");
      let text = "";
      response.on("data", (chunk: string) => (text += chunk));
      response.on("end", () => resolve({ status: response.statusCode ?? 0, text }));
      response.on("error", () => resolve({ status: 0, text }));
    });
    sent.on("error", () => resolve({ status: 0, text: "" }));
    sent.end();
  });
}

/**
 * Resolves with the milliseconds until a host is served with `version`, and with the number of other errors than 404.
 */
export async function untilServed(
  { port, proxy, controller }: ScaleCluster,
  host: string,
  version: string,
): Promise<{ readonly ms: number; readonly errors: number }> {
  const startMs = performance.now();
  let errors = 0;
  for (;;) {
    const { status, text } = await fetchVersion(port, host);
    if (status === 200 && text === version) return { ms: performance.now() - startMs, errors };
    // Before the Gateway has its port there is no response.
    if (status !== 200 && status !== 404 && status !== 0) errors++;
    assertRunning(proxy, controller);
    await delay(2);
  }
}

export function assertRunning(...programs: readonly RunningProgram[]): void {
  for (const program of programs) {
    if (program.hasEnded()) throw new Error(`${program.name} has ended:\n${program.output()}`);
  }
}

/** Processor time of a program in milliseconds. */
export function cpuMs(program: RunningProgram): number {
  const { userUs, systemUs } = program.cpu();
  return (userUs + systemUs) / 1_000;
}

/** Resolves when both programs have used little processor time for a second. */
export async function idle({ controller, proxy, isProfiled }: ScaleCluster): Promise<void> {
  // The profiler itself takes a tenth of a core.
  const idleMs = isProfiled ? 200 : 30;
  for (;;) {
    const before = [cpuMs(controller), cpuMs(proxy)];
    await delay(1_000);
    assertRunning(controller, proxy);
    const after = [cpuMs(controller), cpuMs(proxy)];
    if (after.every((ms, at) => ms - (before[at] ?? 0) < idleMs)) return;
  }
}
