/**
 * Measures what one change among many routes costs each stage of a controller and of a proxy, without an API server:
 * `npm exec -- node test/bench/micro/one-change.ts [--routes 5000] [--changes 10] [--shared]`. The routes are in 50
 * namespaces, each with a hostname, a Service and an endpoint of its own; with `--shared`, all have one hostname and a
 * path each. Prints the median processor time of each stage for the edit of one route, for the change of one endpoint,
 * and for a route that is added or removed. It includes the collection of garbage in other threads. `--cpu-prof` of
 * Node shows what a stage does.
 */
import { randomUUID } from "node:crypto";
import { parseArgs } from "node:util";
import { systemClock } from "@gatewayproxy/runtime/clock";
import { silentLogger } from "@gatewayproxy/runtime/log";
import { objectKey } from "@gatewayproxy/runtime/object-key";
import { runToEnd } from "@gatewayproxy/runtime/steps";
import { batchesOf, SentParts } from "../../../proxy/src/app/sent-parts.ts";
import { type PackedSnapshot, ReceivedParts } from "../../../proxy/src/app/snapshot-parts.ts";
import { Configuration } from "../../../proxy/src/app/configuration.ts";
import { currentObjects } from "../../../proxy/src/controller/current-objects.ts";
import { PlanInputs } from "../../../proxy/src/controller/plan-input.ts";
import { clusterStatuses, planFor } from "../../../proxy/src/controller/plan.ts";
import { noProvisionErrors } from "../../../proxy/src/controller/provision/provisioner.ts";
import { proxyDefaults } from "../../../proxy/src/controller/testing/proxy-defaults.ts";
import { DataPlane } from "../../../proxy/src/data-plane/data-plane.ts";
import type { KubeObject } from "../../../proxy/src/kube/object.ts";
import { CounterTable, createCounters } from "../../../proxy/src/policy/ratelimit/counter-table.ts";
import { type CachedResource, cacheResource } from "../../../proxy/src/source/kubernetes/cached-resource.ts";
import { listedObjects, wholeSet } from "../../../proxy/src/source/kubernetes/listed-objects.ts";
import { type WholeKind, wholeKinds } from "../../../proxy/src/source/kubernetes/watched-kinds.ts";
import { StatusWriter } from "../../../proxy/src/status/writer.ts";
import { clusterEnvironment } from "../../../proxy/src/translate/environment.ts";
import { gatewayScopeInSteps } from "../../../proxy/src/translate/gateway/gateway-scope.ts";
import { namedObjects } from "../../../proxy/src/translate/reference/references.ts";
import { noCredentials } from "../../../proxy/src/translate/tls/credentials.ts";

const { values } = parseArgs({
  options: {
    routes: { type: "string", default: "5000" },
    changes: { type: "string", default: "10" },
    shared: { type: "boolean", default: false },
  },
});
const routes = Number(values.routes);
const changes = Number(values.changes);
const namespaces = 50;
const gatewayApi = "gateway.networking.k8s.io/v1";
const gateway = { namespace: "infra", name: "web" };

/** The objects as the watches of a source keep them, by kind and key. */
class Watched {
  readonly #keepsStatus: boolean;
  readonly #kinds = new Map<WholeKind, Map<string, CachedResource>>(wholeKinds.map((kind) => [kind, new Map()]));
  /** The values of a kind until one of them changes. */
  readonly #values = new Map<WholeKind, readonly CachedResource[]>();

  constructor(keepsStatus: boolean) {
    this.#keepsStatus = keepsStatus;
  }

  put(object: KubeObject): void {
    const { namespace, name } = object["metadata"] as { readonly namespace?: string; readonly name: string };
    const kind = object["kind"] as WholeKind;
    const key = objectKey({ namespace, name });
    const ofKind = this.#kinds.get(kind);
    ofKind?.set(key, cacheResource(object, ofKind.get(key), { keepsStatus: this.#keepsStatus }));
    this.#values.delete(kind);
  }

  delete(route: { readonly namespace: string; readonly name: string }): void {
    this.#kinds.get("HTTPRoute")?.delete(objectKey(route));
    this.#values.delete("HTTPRoute");
  }

  get resources() {
    return wholeSet(
      Array.from(this.#kinds, ([kind, objects]) => ({ kind, ...listedObjects(this.#valuesOf(kind, objects)) })),
    );
  }

  #valuesOf(kind: WholeKind, objects: ReadonlyMap<string, CachedResource>): readonly CachedResource[] {
    const values = this.#values.get(kind) ?? [...objects.values()];
    this.#values.set(kind, values);
    return values;
  }
}

const nameOf = (n: number) => ({ namespace: `n${n % namespaces}`, name: `r${n}` });
const created = { creationTimestamp: "2026-01-01T00:00:00Z" };

function routeOf(n: number, version: string): KubeObject {
  const { namespace, name } = nameOf(n);
  const set = [{ name: "x-version", value: version }];
  const filters = [{ type: "RequestHeaderModifier", requestHeaderModifier: { set } }];
  const matches = values.shared ? { matches: [{ path: { type: "PathPrefix", value: `/${name}` } }] } : {};
  const rules = [{ ...matches, filters, backendRefs: [{ name, port: 80 }] }];
  const spec = { parentRefs: [{ ...gateway }], hostnames: [values.shared ? "shared.test" : `${name}.test`], rules };
  return { apiVersion: gatewayApi, kind: "HTTPRoute", metadata: { namespace, name, uid: `r${n}`, ...created }, spec };
}

function sliceOf(n: number, address: string): KubeObject {
  const { namespace, name } = nameOf(n);
  const labels = { "kubernetes.io/service-name": name };
  return {
    ...{ apiVersion: "discovery.k8s.io/v1", kind: "EndpointSlice" },
    ...{ metadata: { namespace, name, labels }, addressType: "IPv4", ports: [{ port: 8080 }] },
    endpoints: [{ addresses: [address], conditions: { ready: true } }],
  };
}

function* objects(): Generator<KubeObject> {
  const controllerName = "gatewayproxy.dev/controller";
  yield {
    ...{ apiVersion: gatewayApi, kind: "GatewayClass" },
    ...{ metadata: { name: "gateway-proxy", uid: "c" }, spec: { controllerName } },
  };
  const allowedRoutes = { namespaces: { from: "All" } };
  const listeners = [{ name: "http", port: 8080, protocol: "HTTP", allowedRoutes }];
  yield {
    ...{ apiVersion: gatewayApi, kind: "Gateway", metadata: { ...gateway, uid: "g", ...created } },
    spec: { gatewayClassName: "gateway-proxy", listeners },
  };
  for (let n = 0; n < namespaces; n++) yield { apiVersion: "v1", kind: "Namespace", metadata: { name: `n${n}` } };
  for (let n = 0; n < routes; n++) yield routeOf(n, "0");
  // Those of routes that are added, too.
  for (let n = 0; n < addedAt(2 * changes); n++) {
    yield { apiVersion: "v1", kind: "Service", metadata: nameOf(n), spec: { ports: [{ port: 80 }] } };
    yield sliceOf(n, "192.0.2.1");
  }
}

/** The number of an added route. They are spread over all namespaces and pages. */
function addedAt(change: number): number {
  return routes + 7 * change;
}

function cpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}

/** The times of each stage, in milliseconds. */
class Stages {
  readonly #times = new Map<string, number[]>();

  add(name: string, ms: number): void {
    const times = this.#times.get(name) ?? [];
    this.#times.set(name, times);
    times.push(ms);
  }

  measure<Value>(name: string, run: () => Value): Value {
    const startMs = cpuMs();
    const value = run();
    this.add(name, cpuMs() - startMs);
    return value;
  }

  async measureLater<Value>(name: string, run: () => Promise<Value>): Promise<Value> {
    const startMs = cpuMs();
    const value = await run();
    this.add(name, cpuMs() - startMs);
    return value;
  }

  medians(): ReadonlyMap<string, number> {
    return new Map(
      Array.from(this.#times, ([name, times]) => [name, times.sort((a, b) => a - b)[times.length >> 1] ?? 0]),
    );
  }
}

/** The stages of a controller. Statuses are written to a server that takes all of them. */
class MeasuredController {
  readonly watched = new Watched(true);
  readonly #writer = new StatusWriter({
    clock: systemClock,
    log: silentLogger,
    isLeader: () => true,
    api: {
      get: (path) => Promise.resolve(this.#object(path)),
      apply: (_path, body) => Promise.resolve({ ...body }),
      merge: (path, patch) => Promise.resolve({ ...this.#object(path), ...patch }),
    },
  });
  readonly #inputs = new PlanInputs();
  #credentials = noCredentials;

  /** Returns the object of `/apis/GROUP/VERSION/namespaces/NAMESPACE/KINDS/NAME/status`. */
  #object(path: string): KubeObject {
    const [, namespace, , name] = /namespaces\/([^/]+)\/([^/]+)\/([^/]+)/.exec(path) ?? [];
    return { metadata: { namespace, name, resourceVersion: "1", uid: name } };
  }

  async change(stages: Stages): Promise<void> {
    const resources = stages.measure("controller: list", () => this.watched.resources);
    const input = stages.measure("controller: input", () =>
      runToEnd(
        this.#inputs.next({ resources, rejected: [], unreadable: new Set<string>(), crowded: new Set<string>() }),
      ),
    );
    const plan = stages.measure("controller: plan", () => runToEnd(planFor(input, proxyDefaults, this.#credentials)));
    this.#credentials = plan.credentials;
    const statuses = stages.measure("controller: statuses", () =>
      runToEnd(clusterStatuses(plan, { resources, errors: noProvisionErrors, serviceOf: () => undefined })),
    );
    await stages.measureLater("controller: compare", () => this.#writer.write(statuses, currentObjects(resources, [])));
  }
}

/** The stages of a proxy with one worker, whose part runs in the same thread. */
class MeasuredProxy {
  readonly watched = new Watched(false);
  readonly #parts = new ReceivedParts();
  readonly #sent = new SentParts();
  #stages = new Stages();
  readonly dataPlane = new DataPlane({
    ...{ clock: systemClock, random: () => 0, createRequestId: randomUUID },
    counters: new CounterTable(createCounters(1_024, 2), 1, systemClock),
    ...{ reusePort: false, expectsProxyHeader: false, portOf: () => 0 },
    observer: {
      connectionOpened: () => undefined,
      connectionClosed: () => undefined,
      connectionShed: () => undefined,
      requestStarted: () => undefined,
      requestEnded: () => undefined,
      denied: () => undefined,
      mirrored: () => undefined,
    },
    faulted: (error) => {
      throw error;
    },
  });
  readonly #configuration = new Configuration({
    ...{ log: silentLogger, clock: systemClock, random: () => 0, repeatsProblems: false, listenAddress: "127.0.0.1" },
    serve: (snapshot) => this.#serve(snapshot),
    onServed: () => undefined,
    onApplied: () => undefined,
  });
  #servingMs = 0;

  async change(stages: Stages): Promise<void> {
    this.#stages = stages;
    const all = stages.measure("proxy: list", () => this.watched.resources);
    const resources = stages.measure("proxy: select", () => {
      const selected = runToEnd(gatewayScopeInSteps(all, gateway));
      runToEnd(namedObjects(selected, { readsStatus: true }));
      return selected;
    });
    const startMs = cpuMs();
    const { problems } = await this.#configuration.apply({
      ...{ resources, problems: [], kept: [], inForce: new Map() },
      options: { environment: clusterEnvironment({}) },
    });
    if (problems.length > 0) throw new Error(JSON.stringify(problems));
    stages.add("proxy: translate and pack", cpuMs() - startMs - this.#servingMs);
  }

  async #serve(snapshot: PackedSnapshot) {
    const startMs = cpuMs();
    this.#stages.measure("worker: parts", () => {
      const { added, removed } = this.#sent.next(snapshot.groups);
      for (const batch of batchesOf(added)) this.#parts.add(structuredClone(batch));
      this.#parts.remove(removed);
    });
    const frame = this.#stages.measure("worker: frame", () => structuredClone(snapshot.frame));
    const assembled = this.#stages.measure("worker: assemble", () => runToEnd(this.#parts.assemble(frame)));
    const failures = await this.#stages.measureLater("worker: apply", () => this.dataPlane.apply(assembled));
    if (failures.length > 0) throw new Error(JSON.stringify(failures));
    this.#servingMs = cpuMs() - startMs;
    return failures;
  }
}

const controller = new MeasuredController();
const proxy = new MeasuredProxy();
for (const object of objects()) {
  controller.watched.put(object);
  proxy.watched.put(object);
}

/** A change of the watched objects. */
type Change = (watched: Watched, at: number) => void;

/** Makes changes of different objects, from the one at `from`. */
async function measure(change: Change, from: number): Promise<ReadonlyMap<string, number>> {
  const stages = new Stages();
  for (let at = from; at < from + changes; at++) {
    for (const { watched } of [controller, proxy]) change(watched, at);
    await controller.change(stages);
    await proxy.change(stages);
  }
  return stages.medians();
}

const measured: ReadonlyMap<string, Change> = new Map([
  ["one route", (watched, at) => watched.put(routeOf(at, `version ${at}`))],
  ["one endpoint", (watched, at) => watched.put(sliceOf(at, `192.0.2.${2 + (at % 250)}`))],
  ["one added", (watched, at) => watched.put(routeOf(addedAt(at), "0"))],
  ["one removed", (watched, at) => watched.delete(nameOf(addedAt(at)))],
]);

await controller.change(new Stages());
await proxy.change(new Stages());
// The first changes are slower, since code is compiled.
for (const change of measured.values()) await measure(change, 0);
const medians = new Map<string, ReadonlyMap<string, number>>();
for (const [name, change] of measured) medians.set(name, await measure(change, changes));
const columns = [...medians.values()];
const row = (name: string, of: (stages: ReadonlyMap<string, number>) => number) =>
  `| ${name} | ${columns.map((stages) => of(stages).toFixed(1)).join(" | ")} |`;
console.log(
  `| ${routes} routes, ms of a stage | ${[...medians.keys()].join(" | ")} |\n| --- |${" --- |".repeat(medians.size)}`,
);
for (const stage of columns[0]?.keys() ?? []) console.log(row(stage, (stages) => stages.get(stage) ?? 0));
for (const side of ["controller", "proxy", "worker"]) {
  const sum = (stages: ReadonlyMap<string, number>) =>
    Array.from(stages).reduce((ms, [stage, own]) => (stage.startsWith(side) ? ms + own : ms), 0);
  console.log(row(`**${side}**`, sum));
}
const drained = proxy.dataPlane.drain();
proxy.dataPlane.destroy();
await drained;
