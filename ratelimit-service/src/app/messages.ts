/** The messages between the main thread and its workers. */
import type { HistogramKind } from "@gatewayproxy/runtime/metric-families";
import type { ConfigUpdate } from "../config/config-source.ts";
import type { StatsSnapshot } from "../metrics/stats-snapshot.ts";
import type { ServiceSettings } from "../settings.ts";
import type { StoreMemory } from "../store/memory-tables.ts";
import type { ListenAddress } from "@gatewayproxy/grpc/server/grpc-server";

/** The data that a worker starts with. */
export interface WorkerStart {
  readonly settings: ServiceSettings;
  readonly counterMemory: StoreMemory | undefined;
  /** Shared memory in which the over-limit caches of all threads count refunds. */
  readonly refunds: Int32Array;
  /** Starts at 1. */
  readonly thread: number;
}

/** Messages to a worker. The worker sends one reply to each `request`, with the same number. */
export type ToWorker =
  | { readonly kind: "config"; readonly update: ConfigUpdate }
  | { readonly kind: "listen"; readonly request: number; readonly address: ListenAddress }
  | { readonly kind: "stats"; readonly request: number; readonly histograms: HistogramKind }
  | { readonly kind: "heapSamples"; readonly request: number }
  | { readonly kind: "withdraw" }
  | { readonly kind: "close"; readonly request: number; readonly graceMs: number };

/** A reply of a worker to the message with the same `request`. `failed` says why `listen` failed. */
export type FromWorker =
  | { readonly kind: "listening"; readonly request: number; readonly address: number | string }
  | { readonly kind: "failed"; readonly request: number; readonly message: string }
  | { readonly kind: "stats"; readonly request: number; readonly stats: StatsSnapshot }
  /** `samples` is V8's JSON text. */
  | { readonly kind: "heapSamples"; readonly request: number; readonly samples: string }
  | { readonly kind: "closed"; readonly request: number };
