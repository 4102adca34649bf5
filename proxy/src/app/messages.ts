/** What the main thread and a worker say to each other. Plain data: it crosses threads by structured clone. */
import type { LearnedLimit } from "@gatewayproxy/admin-api/limits";
import type { ThreadMemory } from "@gatewayproxy/admin-api/memory";
import type { ThreadTasks } from "@gatewayproxy/admin-api/tasks";
import type { TraceEvent } from "@gatewayproxy/admin-api/trace-event";
import type { AddressRules } from "@gatewayproxy/runtime/address-rules";
import type { MetricsSnapshot } from "@gatewayproxy/runtime/metrics";
import type { DecisionAnswer, DecisionQuestion } from "../admin/decision-ring.ts";
import type { ServiceState } from "../policy/ratelimit/global/service-client.ts";
import type { AbandonedAnswerSettings } from "../server/abandoned-answers.ts";
import type { ClientMemory } from "../server/client-connections.ts";
import type { BindFailure } from "../server/data-plane.ts";
import type { RequestRules } from "../server/request-head.ts";
import type { AccessLogMode } from "../telemetry/access-log.ts";
import type { EndpointState } from "../upstream/endpoint-state.ts";
import type { UpstreamSettings } from "../upstream/upstream-settings.ts";
import type { PartBatch, PartKey, SnapshotFrame } from "./snapshot-parts.ts";

/** Given to a worker at its start. */
export interface WorkerStart {
  /** From 1; also the owner of the locks that it holds in the counters. */
  readonly worker: number;
  readonly counters: SharedArrayBuffer;
  /** Made by `createBodyMemory`. */
  readonly bodies: SharedArrayBuffer;
  readonly bodyMemoryBytes: number;
  readonly clientMemory: ClientMemory;
  readonly trustedHops: number;
  readonly ipv6PrefixLength: number;
  readonly streamIdleTimeoutMs: number;
  readonly contendedStreamIdleTimeoutMs: number;
  readonly upstream: UpstreamSettings;
  /** Where nothing connects to. */
  readonly addresses: AddressRules;
  readonly abandonedAnswers: AbandonedAnswerSettings;
  /** False for a worker alone. */
  readonly reusePort: boolean;
  readonly expectsProxyHeader: boolean;
  /** Protocols that a request may switch to. */
  readonly upgradeProtocols: readonly string[];
  readonly requestRules: RequestRules;
  /** RUST_LOG syntax. */
  readonly logFilter: string;
  readonly accessLog: AccessLogMode;
}

/** What a worker is asked by name, with what, and what it answers. A new question is one line here and one in worker.ts. */
export interface WorkerQueries {
  readonly metrics: Query<undefined, MetricsSnapshot>;
  /** A filter in the syntax of RUST_LOG. */
  readonly setLogFilter: Query<string, undefined>;
  readonly memory: Query<undefined, ThreadMemory>;
  /** As `readHeapSamples`. */
  readonly heapSamples: Query<undefined, string>;
  /** The generation that it serves. */
  readonly generation: Query<undefined, number>;
  /** To watch for a request. The answer comes when the worker does. */
  readonly watch: Query<WatchOrder, undefined>;
  /** Not to watch any more; the number of the watch. */
  readonly unwatch: Query<number, undefined>;
  readonly tasks: Query<undefined, ThreadTasks>;
  readonly decisions: Query<DecisionQuestion, DecisionAnswer>;
  /** At most so many. */
  readonly learnedLimits: Query<number, readonly LearnedLimit[]>;
  readonly rateLimitServices: Query<undefined, readonly ServiceState[]>;
  readonly endpoints: Query<undefined, readonly EndpointState[]>;
}

interface Query<Ask, Answer> {
  readonly ask: Ask;
  readonly answer: Answer;
}

export interface WatchOrder {
  readonly id: number;
  /** Shared by all workers; as `TraceWatch.claim`. */
  readonly claim: Int32Array;
  /** A sound condition in CEL; absent: any request. */
  readonly expression: string | undefined;
}

export type QueryName = keyof WorkerQueries;
export type AskOf<Name extends QueryName> = WorkerQueries[Name]["ask"];
export type AnswerOf<Name extends QueryName> = WorkerQueries[Name]["answer"];

/** How a worker answers each question. */
export type QueryAnswers = { readonly [Name in QueryName]: (ask: AskOf<Name>) => AnswerOf<Name> };

/** One question on its way; `id` is the asker's and comes back with the answer, as that of `apply` does. */
export type QueryMessage<Name extends QueryName = QueryName> = {
  readonly [N in Name]: { readonly kind: "query"; readonly id: number; readonly name: N; readonly ask: AskOf<N> };
}[Name];

/** Answers one question. */
export function answerQuery<Name extends QueryName>(
  answers: QueryAnswers,
  { name, ask }: { readonly name: Name; readonly ask: AskOf<Name> },
): AnswerOf<Name> {
  return answers[name](ask);
}

export type ToWorker =
  /** Parts of the snapshot that comes next. */
  | { readonly kind: "parts"; readonly parts: PartBatch }
  /** Serve a snapshot of which all parts have come. */
  | {
      readonly kind: "apply";
      readonly id: number;
      readonly frame: SnapshotFrame;
      /** Parts that it does not name any more. */
      readonly gone: readonly PartKey[];
    }
  | QueryMessage
  /** Ask clients to leave, and go on serving. */
  | { readonly kind: "leave" }
  /** Finish what is under way, then exit. */
  | { readonly kind: "drain" };

export type FromWorker =
  /** Answers `apply`, when every bind listens or has failed. */
  | { readonly kind: "applied"; readonly id: number; readonly failures: readonly BindFailure[] }
  /** Of the query's own type. */
  | { readonly kind: "answer"; readonly id: number; readonly answer: unknown }
  /** Of a request that is watched; undefined when it has ended. */
  | { readonly kind: "traced"; readonly watch: number; readonly event: TraceEvent | undefined }
  | { readonly kind: "drained" };
