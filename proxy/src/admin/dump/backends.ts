/** Dumps backends with the figures of their endpoints over all workers, and the workloads and Services behind them. */
import { objectKey } from "@gatewayproxy/runtime/object-key";
import type { DumpedBackend, DumpedService, DumpedWorkload, EndpointState } from "@gatewayproxy/admin-api/config-dump";
import { mapInSteps, type Steps } from "@gatewayproxy/runtime/steps";
import { serviceNameLabel } from "../../api/endpoint-slice.ts";
import { backendsByKey } from "../../ir/backends-by-key.ts";
import type { Backend, BackendKey, Failover, Snapshot } from "../../ir/snapshot.ts";
import type { EndpointState as EndpointFigures, ProviderFigures } from "../../ir/endpoint-state.ts";
import type { ConfigurationState } from "./input.ts";

/**
 * Returns the backends of a snapshot in its order. The figures of an address are merged over the workers; an endpoint
 * without any has one row.
 */
export function* dumpBackends(
  { backends }: Snapshot,
  figures: readonly EndpointFigures[],
  providers: ReadonlyMap<BackendKey, ProviderFigures> = new Map(),
): Steps<readonly DumpedBackend[]> {
  const byBackend = yield* groupByBackend(figures);
  const endpointsOf = (backend: Backend): readonly EndpointState[] =>
    mergeEndpoints(backend, byBackend.get(backend.key) ?? []);
  return yield* mapInSteps(backends, (backend) => {
    const { failover } = backend;
    if (failover === undefined) return { ...dumpBackend(backend), endpoints: endpointsOf(backend) };
    const listed = failover.providers.flatMap(({ backend: key }) => backendsByKey(backends).get(key) ?? []);
    const endpoints = listed.flatMap((provider) =>
      endpointsOf(provider).map((endpoint) => ({ ...endpoint, name: backend.name, endpoint: provider.name })),
    );
    return { ...dumpBackend(backend), failover: dumpFailover(failover, providers), endpoints };
  });
}

function dumpFailover(
  { providers, ...timeouts }: Failover,
  figures: ReadonlyMap<BackendKey, ProviderFigures>,
): NonNullable<DumpedBackend["failover"]> {
  return {
    ...timeouts,
    providers: providers.map(({ backend, priority, weight }) => ({
      ...{ backend, priority, weight },
      ...stateOf(figures.get(backend) ?? unknownProvider),
    })),
  };
}

const unknownProvider: ProviderFigures = { outOfQuotaForMs: 0, failingForMs: 0, consecutiveFailures: 0 };

function stateOf({ outOfQuotaForMs, failingForMs, consecutiveFailures }: ProviderFigures) {
  if (outOfQuotaForMs > 0) return { state: "OutOfQuota" as const, forMs: outOfQuotaForMs, consecutiveFailures };
  if (failingForMs > 0) return { state: "Failing" as const, forMs: failingForMs, consecutiveFailures };
  return { state: "Available" as const, consecutiveFailures };
}

/** A step for each thousand. */
function* groupByBackend(
  figures: readonly EndpointFigures[],
): Steps<ReadonlyMap<BackendKey, readonly EndpointFigures[]>> {
  const groups = new Map<BackendKey, EndpointFigures[]>();
  for (const [at, endpoint] of figures.entries()) {
    const group = groups.get(endpoint.backend.key);
    if (group === undefined) groups.set(endpoint.backend.key, [endpoint]);
    else group.push(endpoint);
    if (at % 1_000 === 999) yield;
  }
  return groups;
}

function dumpBackend(backend: Backend): Omit<DumpedBackend, "endpoints"> {
  const { key, kind: type, namespace, name, tls, ai } = backend;
  return {
    key,
    type,
    namespace,
    name,
    protocol: tls === undefined ? "http" : "https",
    ...(tls?.hostname !== undefined && { serverName: tls.hostname }),
    ...(ai !== undefined && {
      ai: {
        provider: ai.provider,
        ...(ai.model !== undefined && { model: ai.model }),
        ...(ai.models !== undefined && { models: ai.models.map(({ name, as }) => ({ name, as })) }),
        ...(ai.prices !== undefined && { prices: ai.prices }),
        ...(ai.currency !== undefined && { currency: ai.currency }),
        ...(ai.pathPrefix !== undefined && { pathPrefix: ai.pathPrefix }),
        credentials: ai.apiKey === undefined && ai.signature === undefined ? "passthrough" : "secret",
      },
    }),
  };
}

/** Returns one row per address. A host name that workers have resolved has one row per address instead of its own. */
function mergeEndpoints(backend: Backend, figures: readonly EndpointFigures[]): readonly EndpointState[] {
  const groups = Map.groupBy(figures, ({ endpoint, address }) => `${endpoint} ${address}`);
  const measured = new Set(figures.map(({ endpoint }) => endpoint));
  const idle = backend.endpoints.filter(({ name }) => !measured.has(name));
  return [
    ...[...groups.values()].flatMap((group) => mergeFigures(backend, group)),
    ...idle.map(({ name, host, port }) => ({
      ...rowOf(backend, name, `${host.includes(":") ? `[${host}]` : host}:${port}`),
      ...unused,
    })),
  ];
}

const unused = {
  health: 1,
  requests: 0,
  inFlight: 0,
  consecutiveFailures: 0,
  timesEjected: 0,
  failsHealthChecks: false,
};

function rowOf({ kind: type, name, namespace }: Backend, endpoint: string, address: string) {
  return { type, name, namespace, endpoint, address };
}

function mergeFigures(backend: Backend, group: readonly EndpointFigures[]): readonly EndpointState[] {
  const [first] = group;
  if (first === undefined) return [];
  const sum = (read: (figures: EndpointFigures) => number): number =>
    group.reduce((total, worker) => total + read(worker), 0);
  const max = (read: (figures: EndpointFigures) => number): number => Math.max(...group.map(read));
  const requests = sum((worker) => worker.requests);
  const latencyMs = meanLatencyMs(group);
  const ejectedForMs = max((worker) => worker.ejectedForMs);
  // A worker without requests has not measured the health.
  const used = group.filter((worker) => worker.requests > 0);
  return [
    {
      ...rowOf(backend, first.endpoint, first.address),
      health: used.length === 0 ? 1 : Math.min(...used.map(({ health }) => health)),
      requests,
      inFlight: sum((worker) => worker.pending),
      ...(latencyMs !== undefined && { latencyMs }),
      consecutiveFailures: max((worker) => worker.consecutiveFailures),
      timesEjected: sum((worker) => worker.timesEjected),
      ...(ejectedForMs > 0 && { ejectedForMs }),
      failsHealthChecks: group.some((worker) => worker.failsChecks),
    },
  ];
}

/** Returns the mean latency, rounded to microseconds, weighted by requests over the workers with a response. */
function meanLatencyMs(group: readonly EndpointFigures[]): number | undefined {
  const measured = group.filter(({ latencyMs }) => latencyMs > 0);
  if (measured.length === 0) return undefined;
  const requests = measured.reduce((total, worker) => total + worker.requests, 0);
  const ms = measured.reduce((total, worker) => total + worker.latencyMs * worker.requests, 0) / requests;
  return Math.round(ms * 1_000) / 1_000;
}

/** Returns workloads by namespace and name of their endpoint; endpoints of Backends are identified by their address. */
export function* dumpWorkloads(backends: readonly DumpedBackend[]): Steps<readonly DumpedWorkload[]> {
  const workloads = new Map<
    string,
    { name: string; namespace: string; addresses: Set<string>; backends: Set<string> }
  >();
  for (const { key, type, endpoints } of backends) {
    for (const { endpoint, namespace, address } of endpoints) {
      const name = type === "Service" ? endpoint : address.replace(/:\d+$/, "");
      const id = objectKey({ namespace, name });
      const workload = workloads.get(id) ?? { name, namespace, addresses: new Set(), backends: new Set() };
      workload.addresses.add(address);
      workload.backends.add(key);
      workloads.set(id, workload);
    }
    yield;
  }
  return yield* mapInSteps(workloads.values(), (workload) => ({
    ...workload,
    addresses: [...workload.addresses],
    backends: [...workload.backends],
  }));
}

/** Returns each Service with its ready endpoints, and the keys of the backends of its ports. */
export function* dumpServices({ resources, snapshot }: ConfigurationState): Steps<readonly DumpedService[]> {
  const slices = Map.groupBy(
    resources.EndpointSlice,
    ({ metadata }) => `${metadata.namespace}/${metadata.labels[serviceNameLabel] ?? ""}`,
  );
  const used = Map.groupBy(
    snapshot.backends.filter(({ kind }) => kind === "Service"),
    ({ namespace, name }) => objectKey({ namespace, name }),
  );
  return yield* mapInSteps(resources.Service, ({ metadata: { namespace, name }, spec }) => ({
    namespace,
    name,
    ports: spec.ports.map(({ name: portName, port, appProtocol }) => ({
      ...(portName !== undefined && { name: portName }),
      port,
      ...(appProtocol !== undefined && { appProtocol }),
    })),
    readyEndpoints: (slices.get(objectKey({ namespace, name })) ?? [])
      .flatMap(({ endpoints }) => endpoints)
      .filter(({ state }) => state === "ready").length,
    backends: (used.get(objectKey({ namespace, name })) ?? []).map(({ key }) => key),
  }));
}
