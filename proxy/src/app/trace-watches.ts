/**
 * The watches for requests, in the main thread. Every worker gets each watch. The first worker with a matching request
 * claims the watch in shared memory, and sends the events of the request with the number of the watch.
 */
import type { TraceEvent } from "@gatewayproxy/admin-api/trace-event";
import type { WatchOptions } from "../admin/endpoints/trace.ts";
import type { SentWatch } from "./messages.ts";
import type { WorkerPool } from "./worker-pool.ts";

interface Watch extends WatchOptions {
  /** 0, or the number of the worker with the request. */
  readonly claim: Int32Array;
  /** Milliseconds since the epoch. */
  readonly sinceMs: number;
}

export class TraceWatches {
  readonly #watches = new Map<number, Watch>();
  #lastId = 0;

  /** Starts a watch. Resolves when every worker watches, with a function that stops it. */
  async watch(pool: WorkerPool, sinceMs: number, options: WatchOptions): Promise<() => void> {
    const id = ++this.#lastId;
    const claim = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
    this.#watches.set(id, { ...options, claim, sinceMs });
    await pool.query("watch", { id, claim, expression: options.expression, traceId: options.traceId });
    return () => {
      if (this.#watches.delete(id)) void pool.query("unwatch", id);
    };
  }

  /** Passes an event of a worker to the client; undefined after the last one. */
  deliver(id: number, event: TraceEvent | undefined): void {
    const watch = this.#watches.get(id);
    if (watch === undefined) return;
    if (event === undefined) watch.onEnd();
    else watch.onEvent(event);
  }

  /** Ends the watches that a dead worker had claimed. */
  workerDied(worker: number): void {
    for (const { claim, onEnd } of this.#watches.values()) if (Atomics.load(claim, 0) === worker) onEnd();
  }

  /** Returns the watches that no request has matched yet. */
  unclaimed(): readonly SentWatch[] {
    return Array.from(this.#watches, ([id, { claim, expression, traceId }]) => {
      return { id, claim, expression, traceId };
    }).filter(({ claim }) => Atomics.load(claim, 0) === 0);
  }

  /** Returns each watch with its start in milliseconds since the epoch. */
  list(): readonly Pick<Watch, "sinceMs" | "expression" | "traceId">[] {
    return [...this.#watches.values()];
  }
}
