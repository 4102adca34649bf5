/** What the main thread and a worker say to each other. Plain data: it crosses threads by structured clone. */
import type { MetricsSnapshot } from "@gatewayproxy/runtime/metrics";
import type { Snapshot } from "../ir/snapshot.ts";
import type { BindFailure } from "../server/data-plane.ts";
import type { AccessLogMode } from "../telemetry/access-log.ts";

/** Given to a worker at its start. */
export interface WorkerStart {
  /** From 1; also the owner of the locks that it holds in the counters. */
  readonly worker: number;
  readonly counters: SharedArrayBuffer;
  readonly listenAddress: string | undefined;
  readonly trustedHops: number;
  /** False for a worker alone. */
  readonly reusePort: boolean;
  readonly expectsProxyHeader: boolean;
  /** RUST_LOG syntax. */
  readonly logFilter: string;
  readonly accessLog: AccessLogMode;
}

export type ToWorker =
  | { readonly kind: "apply"; readonly snapshot: Snapshot }
  | { readonly kind: "collectMetrics"; readonly request: number }
  /** Finish what is under way, then exit. */
  | { readonly kind: "drain" };

export type FromWorker =
  /** Answers `apply`, when every bind listens or has failed. */
  | { readonly kind: "applied"; readonly generation: number; readonly failures: readonly BindFailure[] }
  | { readonly kind: "metrics"; readonly request: number; readonly metrics: MetricsSnapshot }
  | { readonly kind: "drained" };
