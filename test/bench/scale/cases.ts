/** The cases of `npm run bench:scale`, after those of gateway-api-bench. Each has a cluster of its own. */
import { setTimeout as delay } from "node:timers/promises";
import { percentile } from "../statistics.ts";
import { gatewayNamespace, type KubeObject, paths, type ScaleCluster, startCluster } from "./cluster.ts";
import {
  cpuMs,
  createRoute,
  endpointsOf,
  fetchVersion,
  forEachOf,
  hostOf,
  idle,
  type ObjectName,
  routeOf,
  untilServed,
} from "./routes.ts";

/** The sizes of the cases. */
export interface ScaleOptions {
  /** Routes of the case of attached routes. */
  readonly attached: number;
  /** Routes of the probe. */
  readonly probes: number;
  /** Edits of a route under traffic. */
  readonly changes: number;
  /** Namespaces of the case of many routes; each has 100 routes. */
  readonly namespaces: number;
  /** ListenerSets, each with 16 routes. */
  readonly listenerSets: number;
  /** The folder for CPU profiles; undefined: none are written. */
  readonly profiles: string | undefined;
}

/** A figure and its value, as in the table. */
export type Row = readonly [figure: string, value: string];

const seconds = (ms: number): string => `${(ms / 1_000).toFixed(1)} s`;
const milliseconds = (ms: number): string => `${ms.toFixed(0)} ms`;
const mebibytes = (bytes: number): string => `${(bytes / 1024 ** 2).toFixed(0)} MiB`;

async function withCluster<T>(
  namespaces: number,
  { profiles }: ScaleOptions,
  use: (cluster: ScaleCluster) => Promise<T>,
): Promise<T> {
  const cluster = await startCluster(namespaces, profiles);
  try {
    return await use(cluster);
  } finally {
    await cluster.stop();
  }
}

/** Resolves when `attachedRoutes` of the Gateway's listener is `count`. Throws if it was larger than `most`. */
async function untilAttached({ api }: ScaleCluster, count: number, most: number): Promise<void> {
  for (;;) {
    const attached = attachedRoutes(await api.get(paths.gateway));
    if (attached === count) return;
    if (attached > most) throw new Error(`attachedRoutes is ${attached}, and there have been ${most} routes at most`);
    await delay(20);
  }
}

function attachedRoutes(gateway: KubeObject): number {
  const { status } = gateway as {
    readonly status?: { readonly listeners?: readonly { readonly attachedRoutes: number }[] };
  };
  return status?.listeners?.[0]?.attachedRoutes ?? -1;
}

/** Routes are created and deleted at once: the time until the Gateway's status is right, and its writes. */
export function attachedRoutesCase(options: ScaleOptions): Promise<readonly Row[]> {
  const { attached } = options;
  return withCluster(1, options, async (cluster) => {
    const names = Array.from({ length: attached }, (_, n) => ({ namespace: "n0", name: `r${n}` }));
    await untilAttached(cluster, 0, 0);
    const writesBefore = cluster.writesTo("gateways");
    const cpuBefore = cpuMs(cluster.controller);
    await forEachOf(names, (at) => createRoute(cluster.api, at, false));
    const createdMs = performance.now();
    await untilAttached(cluster, attached, attached);
    const setupMs = performance.now() - createdMs;
    await forEachOf(names, ({ name }) => cluster.api.delete(`${paths.routes("n0")}/${name}`));
    const deletedMs = performance.now();
    await untilAttached(cluster, 0, attached);
    const teardownMs = performance.now() - deletedMs;
    await idle(cluster);
    return [
      ["setup time", seconds(setupMs)],
      ["teardown time", seconds(teardownMs)],
      ["writes of the Gateway's status", String(cluster.writesTo("gateways") - writesBefore)],
      ["CPU time of the controller", seconds(cpuMs(cluster.controller) - cpuBefore)],
    ];
  });
}

/**
 * Routes are created one after the other: the time until each is served, and errors then and in requests that follow.
 */
export function routeProbeCase(options: ScaleOptions): Promise<readonly Row[]> {
  const { probes } = options;
  return withCluster(1, options, async (cluster) => {
    const times: number[] = [];
    let errors = 0;
    for (let n = 0; n < probes; n++) {
      const at = { namespace: "n0", name: `r${n}` };
      await createRoute(cluster.api, at, false);
      const served = await untilServed(cluster, hostOf(at), "1");
      // The first request waits for the Gateway's port.
      if (n > 0) times.push(served.ms);
      errors += served.errors;
      for (let more = 0; more < 10; more++) {
        if ((await fetchVersion(cluster.port, hostOf(at))).status !== 200) errors++;
      }
    }
    const of = (percent: number): string => milliseconds(percentile(times, percent));
    return [
      ["served after, p50", of(50)],
      ["served after, p90", of(90)],
      ["served after, p99", of(99)],
      ["served after, the last 50, p50", milliseconds(percentile(times.slice(-50), 50))],
      ["errors", String(errors)],
    ];
  });
}

/** A route under traffic is edited: requests that fail. */
export function routeChangesCase(options: ScaleOptions): Promise<readonly Row[]> {
  const { changes } = options;
  return withCluster(1, options, async (cluster) => {
    const at = { namespace: "n0", name: "r0" };
    await createRoute(cluster.api, at, false);
    await untilServed(cluster, hostOf(at), "1");
    let [requests, failures, isOver] = [0, 0, false];
    const lane = async (): Promise<void> => {
      while (!isOver) {
        requests++;
        if ((await fetchVersion(cluster.port, hostOf(at))).status !== 200) failures++;
      }
    };
    const traffic = Promise.all(Array.from({ length: 4 }, lane));
    for (let change = 2; change < changes + 2; change++) {
      await cluster.api.patch(`${paths.routes("n0")}/r0`, { spec: routeOf(at, String(change))["spec"] });
      await untilServed(cluster, hostOf(at), String(change));
    }
    isOver = true;
    await traffic;
    return [
      ["requests", String(requests)],
      ["failed requests", String(failures)],
    ];
  });
}

/** Enough that most of them find compiled code. */
const measuredChanges = 40;

/** Changes one thing at a time, and measures until both programs are idle again. */
async function measureChanges(
  cluster: ScaleCluster,
  count: number,
  change: (at: number) => Promise<number>,
): Promise<{ readonly controller: number; readonly proxy: number; readonly servedMs: readonly number[] }> {
  const costs: { readonly controller: number; readonly proxy: number; readonly servedMs: number }[] = [];
  for (let at = 0; at < count; at++) {
    const before = [cpuMs(cluster.controller), cpuMs(cluster.proxy)] as const;
    const servedMs = await change(at);
    await idle(cluster);
    const controller = cpuMs(cluster.controller) - before[0];
    costs.push({ controller, proxy: cpuMs(cluster.proxy) - before[1], servedMs });
  }
  const medianOf = (of: "controller" | "proxy"): number =>
    percentile(
      costs.map((cost) => cost[of]),
      50,
    );
  return { controller: medianOf("controller"), proxy: medianOf("proxy"), servedMs: costs.map((cost) => cost.servedMs) };
}

/** V8 collects the garbage of a program that allocates little within 100 s. */
const restMs = 120_000;

/** Many routes, each with a Service: the cost of all of them, and of one change among them. */
export function routeScaleCase(options: ScaleOptions): Promise<readonly Row[]> {
  const { namespaces } = options;
  return withCluster(namespaces, options, async (cluster) => {
    const names: readonly ObjectName[] = Array.from({ length: namespaces * 100 }, (_, n) => ({
      namespace: `n${n % namespaces}`,
      name: `r${n}`,
    }));
    await idle(cluster);
    const empty = { controller: cpuMs(cluster.controller), proxy: cpuMs(cluster.proxy) };
    await forEachOf(names, (at) => createRoute(cluster.api, at, true));
    const last = names.at(-1) ?? { namespace: "n0", name: "r0" };
    const { ms, errors } = await untilServed(cluster, hostOf(last), "1");
    await untilAttached(cluster, names.length, names.length);
    await idle(cluster);
    const { controller, proxy, api } = cluster;
    const all = { controller: cpuMs(controller) - empty.controller, proxy: cpuMs(proxy) - empty.proxy };
    const sizes = { controller: controller.residentBytes(), proxy: proxy.residentBytes() };
    const edits = await measureChanges(cluster, measuredChanges, async (change) => {
      const at = names[change * 7] ?? last;
      await api.patch(`${paths.routes(at.namespace)}/${at.name}`, { spec: routeOf(at, "2")["spec"] });
      return (await untilServed(cluster, hostOf(at), "2")).ms;
    });
    const endpoints = await measureChanges(cluster, measuredChanges, async (change) => {
      const at = names[change * 7] ?? last;
      const slice = `${paths.endpointSlices(at.namespace)}/${at.name}`;
      await api.patch(slice, { endpoints: endpointsOf(at, 2)["endpoints"] });
      return 0;
    });
    await delay(restMs);
    const memory = (of: Readonly<Record<"controller" | "proxy", number>>): string =>
      `${mebibytes(of.controller)} / ${mebibytes(of.proxy)}`;
    return [
      ["last route served after its creation", seconds(ms)],
      ["errors", String(errors)],
      ["CPU time for all, controller / proxy", `${seconds(all.controller)} / ${seconds(all.proxy)}`],
      ["memory with all, controller / proxy", memory(sizes)],
      [
        "memory two minutes after the last change, controller / proxy",
        memory({ controller: controller.residentBytes(), proxy: proxy.residentBytes() }),
      ],
      ["edit of one route, served after, p50", milliseconds(percentile(edits.servedMs, 50))],
      [
        "edit of one route, CPU time, controller / proxy",
        `${milliseconds(edits.controller)} / ${milliseconds(edits.proxy)}`,
      ],
      [
        "one more endpoint, CPU time, controller / proxy",
        `${milliseconds(endpoints.controller)} / ${milliseconds(endpoints.proxy)}`,
      ],
    ];
  });
}

/** ListenerSets with a hostname each, and 16 routes on each. */
export function listenerSetsCase(options: ScaleOptions): Promise<readonly Row[]> {
  const { listenerSets } = options;
  const namespaces = 10;
  return withCluster(namespaces, options, async (cluster) => {
    const sets = Array.from({ length: listenerSets }, (_, n) => ({ namespace: `n${n % namespaces}`, name: `s${n}` }));
    await idle(cluster);
    const before = { controller: cpuMs(cluster.controller), proxy: cpuMs(cluster.proxy) };
    await forEachOf(sets, ({ namespace, name }) =>
      cluster.api.create(paths.listenerSets(namespace), {
        apiVersion: "gateway.networking.k8s.io/v1",
        kind: "ListenerSet",
        metadata: { namespace, name },
        spec: {
          parentRef: { name: "web", namespace: gatewayNamespace },
          listeners: [{ name: "http", port: cluster.port, protocol: "HTTP", hostname: `*.${name}.${namespace}.test` }],
        },
      }),
    );
    const parentOf = ({ name }: ObjectName): KubeObject => ({
      group: "gateway.networking.k8s.io",
      kind: "ListenerSet",
      name,
    });
    const routes = sets.flatMap((set) => Array.from({ length: 16 }, (_, n) => ({ set, name: `${set.name}-r${n}` })));
    const hostIn = (set: ObjectName, name: string): string => `${name}.${hostOf(set)}`;
    await forEachOf(routes, async ({ set, name }) => {
      const route = routeOf({ namespace: set.namespace, name }, "1", parentOf(set));
      const spec = { ...(route["spec"] as object), hostnames: [hostIn(set, name)] };
      await cluster.api.create(paths.routes(set.namespace), { ...route, spec });
    });
    const last = routes.at(-1);
    if (last === undefined) throw new Error("there are no ListenerSets");
    const { ms, errors } = await untilServed(cluster, hostIn(last.set, last.name), "1");
    await idle(cluster);
    const { controller, proxy } = cluster;
    return [
      ["last route served after its creation", seconds(ms)],
      ["errors", String(errors)],
      [
        "CPU time for all, controller / proxy",
        `${seconds(cpuMs(controller) - before.controller)} / ${seconds(cpuMs(proxy) - before.proxy)}`,
      ],
      [
        "memory with all, controller / proxy",
        `${mebibytes(controller.residentBytes())} / ${mebibytes(proxy.residentBytes())}`,
      ],
    ];
  });
}
