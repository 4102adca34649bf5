/**
 * Those who watch for a request, as the main thread sees them: every worker is told of each, the first that has a fitting
 * request claims it in memory that all share, and its events come back by the watch's number.
 */
import type { TraceEvent } from "@gatewayproxy/admin-api/trace-event";
import type { WatchOptions } from "../admin/endpoints/trace.ts";
import type { WatchOrder } from "./messages.ts";
import type { WorkerPool } from "./worker-pool.ts";

interface Watch extends WatchOptions {
  /** 0, or the worker that has the request. */
  readonly claim: Int32Array;
  /** Wall time, ms. */
  readonly sinceMs: number;
}

export class TraceWatches {
  readonly #watches = new Map<number, Watch>();
  #last = 0;

  /** Resolves with what stops it, when every worker watches. */
  async watch(pool: WorkerPool, sinceMs: number, options: WatchOptions): Promise<() => void> {
    const id = ++this.#last;
    const claim = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
    this.#watches.set(id, { ...options, claim, sinceMs });
    await pool.ask("watch", { id, claim, expression: options.expression });
    return () => {
      if (this.#watches.delete(id)) void pool.ask("unwatch", id);
    };
  }

  /** Takes an event of a worker; undefined for the last. */
  take(id: number, event: TraceEvent | undefined): void {
    const watch = this.#watches.get(id);
    if (watch === undefined) return;
    if (event === undefined) watch.onEnd();
    else watch.onEvent(event);
  }

  /** Ends what a worker that died had taken. */
  workerDied(worker: number): void {
    for (const { claim, onEnd } of this.#watches.values()) if (Atomics.load(claim, 0) === worker) onEnd();
  }

  /** Those whose request has not come yet. */
  waiting(): readonly WatchOrder[] {
    return Array.from(this.#watches, ([id, { claim, expression }]) => ({ id, claim, expression })).filter(
      ({ claim }) => Atomics.load(claim, 0) === 0,
    );
  }

  /** Since when each is waiting or watching; wall time, ms. */
  list(): readonly { readonly sinceMs: number; readonly expression: string | undefined }[] {
    return [...this.#watches.values()];
  }
}
