/** Worker threads in the process of a test, which can inspect and end them. They are stopped when the test ends. */
import { runToEnd } from "@gatewayproxy/runtime/steps";
import { unrestricted } from "@gatewayproxy/runtime/address-rules";
import type { Clock } from "@gatewayproxy/runtime/clock";
import { Logs } from "@gatewayproxy/runtime/log";
import { onTestFinished } from "vitest";
import { type PackedSnapshot, packSnapshot } from "../../proxy/src/app/snapshot-parts.ts";
import { WorkerPool, type WorkerPoolOptions } from "../../proxy/src/app/worker-pool.ts";
import type { Snapshot } from "../../proxy/src/ir/snapshot.ts";
import { CounterTable, createCounters } from "../../proxy/src/policy/ratelimit/counter-table.ts";
import { defaultAbandonedResponses } from "../../proxy/src/pipeline/attempts/abandoned-responses.ts";
import { clientMemoryOf, defaultClientBytes } from "../../proxy/src/listen/client-connections.ts";
import { BodyBudget, createBodyMemory, defaultBodyMemoryBytes } from "../../proxy/src/pipeline/body/body-budget.ts";
import { defaultAccessLog } from "../../proxy/src/telemetry/access-log/access-log.ts";
import { defaultRequestRules } from "../../proxy/src/listen/request-head.ts";
import { createProviderMemory, ProviderStates } from "../../proxy/src/upstream/provider-states.ts";
import { defaultStreams } from "../../proxy/src/streams/stream-services.ts";
import { defaultUpstream } from "../../proxy/src/upstream/upstream-settings.ts";

type Events = Pick<WorkerPoolOptions, "onRestart" | "onBindFailure" | "unclaimedWatches" | "onTraced">;

/** Starts `workers` threads with the default settings of a proxy, without logs, on 127.0.0.1. */
export function startWorkerPool(workers: number, clock: Clock, events: Partial<Events> = {}): WorkerPool {
  const counters = createCounters(1_024, 2);
  const bodies = createBodyMemory(workers);
  const providers = createProviderMemory();
  const filter = { level: "off", modules: new Map() } as const;
  const pool = new WorkerPool({
    workers,
    heapMib: undefined,
    start: {
      counters,
      clientMemory: clientMemoryOf(defaultClientBytes),
      listeningSockets: 1,
      trustedHops: 0,
      ipv6PrefixLength: 64,
      requestRules: defaultRequestRules,
      streamIdleTimeoutMs: 0,
      contendedStreamIdleTimeoutMs: 0,
      upstream: defaultUpstream,
      streams: defaultStreams,
      abandonedResponses: defaultAbandonedResponses,
      expectsProxyHeader: false,
      upgradeProtocols: [],
      bodies,
      providers,
      bodyMemoryBytes: defaultBodyMemoryBytes,
      logFilter: "off",
      accessLog: { settings: { ...defaultAccessLog, mode: "off" }, toStdout: true, toFile: false, otlp: undefined },
      lineExport: undefined,
      tracing: undefined,
      isLatestGenAi: false,
    },
    counters: new CounterTable(counters, workers + 1),
    bodies: new BodyBudget(bodies, 0, defaultBodyMemoryBytes),
    providers: new ProviderStates(providers, workers + 1),
    clock,
    log: new Logs({ filter, clock, destination: { write: () => undefined } }).logger("proxy::workers"),
    onRestart: () => undefined,
    onBindFailure: () => undefined,
    unclaimedWatches: () => [],
    onTraced: () => undefined,
    appendAccessLines: undefined,
    serveSender: () => undefined,
    ...events,
  });
  pool.open(unrestricted);
  onTestFinished(() => pool.drain(AbortSignal.abort()));
  return pool;
}

/** A snapshot in the form that workers receive. */
export function packed(generation: number, { binds, backends }: Omit<Snapshot, "generation">): PackedSnapshot {
  return runToEnd(packSnapshot({ generation, binds, backends }));
}
