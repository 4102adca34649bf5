/** Messages between the main thread and a worker. Plain data, sent by structured clone. */
import type { MessagePort } from "node:worker_threads";
import type { LearnedLimit } from "@gatewayproxy/admin-api/limits";
import type { ThreadMemory } from "@gatewayproxy/admin-api/memory";
import type { ThreadTasks } from "@gatewayproxy/admin-api/tasks";
import type { TraceEvent } from "@gatewayproxy/admin-api/trace-event";
import type { AddressRules } from "@gatewayproxy/runtime/address-rules";
import type { MetricsSnapshot } from "@gatewayproxy/runtime/metrics";
import type { DecisionResult, DecisionQuery } from "../admin/decision-ring.ts";
import type { ServiceState } from "../policy/ratelimit/global/service-client.ts";
import type { AbandonedResponseSettings } from "../pipeline/attempts/abandoned-responses.ts";
import type { ClientMemory } from "../listen/client-connections.ts";
import type { BindFailure } from "../data-plane/data-plane.ts";
import type { RequestRules } from "../listen/request-head.ts";
import type { LogExportSettings } from "@gatewayproxy/runtime/log-export-settings";
import type { OtlpTransport } from "@gatewayproxy/runtime/otlp-sender";
import type { TracingSettings } from "@gatewayproxy/runtime/tracing-settings";
import type { TracedAlways } from "../telemetry/spans/request-tracing.ts";
import type { AccessLogSettings } from "../telemetry/access-log/access-log.ts";
import type { KeySetState } from "../ir/key-set-state.ts";
import type { EndpointState } from "../ir/endpoint-state.ts";
import type { BackendKey } from "../ir/snapshot.ts";
import type { StreamSettings } from "../streams/stream-services.ts";
import type { UpstreamSettings } from "../upstream/upstream-settings.ts";
import type { PartBatch, PartKey, SnapshotFrame } from "./snapshot-parts.ts";

/** Start data of a worker. */
export interface WorkerStart {
  /** From 1. Identifies the worker as the owner of locks in the counters, too. */
  readonly worker: number;
  readonly counters: SharedArrayBuffer;
  /** Created by `createBodyMemory`. */
  readonly bodies: SharedArrayBuffer;
  readonly bodyMemoryBytes: number;
  /** Created by `createProviderMemory`. */
  readonly providers: SharedArrayBuffer;
  readonly clientMemory: ClientMemory;
  /** As `DataPlaneOptions.listeningSockets`. */
  readonly listeningSockets: number;
  readonly trustedHops: number;
  readonly ipv6PrefixLength: number;
  readonly streamIdleTimeoutMs: number;
  readonly contendedStreamIdleTimeoutMs: number;
  readonly upstream: UpstreamSettings;
  readonly streams: StreamSettings;
  /** Addresses to which no connection is opened. */
  readonly addresses: AddressRules;
  readonly abandonedResponses: AbandonedResponseSettings;
  /** The number of workers, which share the TCP ports. */
  readonly workers: number;
  readonly expectsProxyHeader: boolean;
  /** Protocols that a request may switch to. */
  readonly upgradeProtocols: readonly string[];
  readonly requestRules: RequestRules;
  /** RUST_LOG syntax. */
  readonly logFilter: string;
  readonly accessLog: WorkerAccessLog;
  /** The export of all other lines of the log; absent: none are exported. */
  readonly lineExport: LogExportSettings | undefined;
  /** Absent: no spans are exported. */
  readonly tracing: WorkerTracing | undefined;
  /** As `ProxyOptions.isLatestGenAi`. */
  readonly isLatestGenAi: boolean;
}

/** The access log. */
export interface WorkerAccessLog {
  readonly settings: AccessLogSettings;
  /** Whether lines are written to standard output. */
  readonly toStdout: boolean;
  /** Whether the main thread has a file for lines. */
  readonly toFile: boolean;
  /** Absent: no records of OTLP are exported. */
  readonly otlp: LogExportSettings | undefined;
}

/** The export of spans. */
export interface WorkerTracing {
  readonly settings: TracingSettings;
  readonly always: TracedAlways;
  readonly ignoresClients: boolean;
}

/** The queries of a worker by name, with argument and result. A new query needs one line here and one in worker.ts. */
export interface WorkerQueries {
  /** The argument is whether histograms have exponential buckets from now on. They keep those that they have. */
  readonly metrics: Query<boolean, MetricsSnapshot>;
  /** A filter in the syntax of RUST_LOG. */
  readonly setLogFilter: Query<string, undefined>;
  readonly memory: Query<undefined, ThreadMemory>;
  /** As `readHeapSamples`. */
  readonly heapSamples: Query<undefined, string>;
  /** The generation of the snapshot that the worker serves. */
  readonly generation: Query<undefined, number>;
  /** Watches for a request. The result is sent when the watch is active. */
  readonly watch: Query<SentWatch, undefined>;
  /** Ends a watch, by its number. */
  readonly unwatch: Query<number, undefined>;
  readonly tasks: Query<undefined, ThreadTasks>;
  readonly decisions: Query<DecisionQuery, DecisionResult>;
  /** The argument is the maximum number. */
  readonly learnedLimits: Query<number, readonly LearnedLimit[]>;
  readonly rateLimitServices: Query<undefined, readonly ServiceState[]>;
  readonly keySets: Query<undefined, readonly KeySetState[]>;
  /** The argument has the keys of backends. */
  readonly endpoints: Query<readonly BackendKey[], readonly EndpointState[]>;
}

interface Query<Argument, Result> {
  readonly argument: Argument;
  readonly result: Result;
}

/** A watch of an operator, as sent to a worker. */
export interface SentWatch {
  readonly id: number;
  /** Shared by all workers; as `TraceWatch.claim`. */
  readonly claim: Int32Array;
  /** A valid condition in CEL; absent: any request. */
  readonly expression: string | undefined;
  /** The trace of the request; absent: any, or none. */
  readonly traceId: string | undefined;
}

/** The name of a query. */
export type QueryName = keyof WorkerQueries;
/** The argument of a query. */
export type ArgumentOf<Name extends QueryName> = WorkerQueries[Name]["argument"];
/** The result of a query from one worker. */
export type ResultOf<Name extends QueryName> = WorkerQueries[Name]["result"];

/** The functions of a worker that handle each query. */
export type QueryHandlers = {
  readonly [Name in QueryName]: (argument: ArgumentOf<Name>) => ResultOf<Name>;
};

/** One query. The sender chooses `id`; the result contains it, as for `apply`. */
export type QueryMessage<Name extends QueryName = QueryName> = {
  readonly [N in Name]: {
    readonly kind: "query";
    readonly id: number;
    readonly name: N;
    readonly argument: ArgumentOf<N>;
  };
}[Name];

/** Calls the handler of a query. */
export function handleQuery<Name extends QueryName>(
  handlers: QueryHandlers,
  { name, argument }: { readonly name: Name; readonly argument: ArgumentOf<Name> },
): ResultOf<Name> {
  return handlers[name](argument);
}

/** A message of the main thread to a worker. */
export type ToWorker =
  /** Parts of the next snapshot. */
  | { readonly kind: "parts"; readonly parts: PartBatch }
  /** Serve a snapshot whose parts have all been sent. */
  | {
      readonly kind: "apply";
      readonly id: number;
      readonly frame: SnapshotFrame;
      /** Parts that the snapshot does not contain any more. */
      readonly removed: readonly PartKey[];
    }
  | QueryMessage
  /** Ask clients to close their connections, and continue to serve. */
  | { readonly kind: "leave" }
  /** The last `accessLines` are written, except `lost` ones. */
  | { readonly kind: "accessLinesWritten"; readonly lost: number }
  /** Finish the requests in progress, then exit. Relayed connections and sessions are closed after `withinMs`. */
  | { readonly kind: "drain"; readonly withinMs: number };

/** A message of a worker to the main thread. `drained` is the last one. */
export type FromWorker =
  /** The result of `apply`, sent when every bind listens or has failed. */
  | { readonly kind: "applied"; readonly id: number; readonly failures: readonly BindFailure[] }
  /** The result of a query, as declared in `WorkerQueries`. */
  | { readonly kind: "result"; readonly id: number; readonly result: unknown }
  /** Connects the worker to the thread that counts tokens. The port is transferred. */
  | { readonly kind: "tokenPort"; readonly port: MessagePort }
  /** Opens a sender of OTLP messages for the worker. The port is transferred. */
  | { readonly kind: "senderPort"; readonly transport: OtlpTransport; readonly port: MessagePort }
  /** An event of a watched request; undefined when it has ended. */
  | { readonly kind: "traced"; readonly watch: number; readonly event: TraceEvent | undefined }
  /** Whole lines for the file of the access log. */
  | { readonly kind: "accessLines"; readonly lines: string }
  | { readonly kind: "drained" };
