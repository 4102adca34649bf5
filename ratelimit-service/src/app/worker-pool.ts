/**
 * The worker threads that the main thread starts. All get the same configuration and listen on the same port. A worker
 * that dies is replaced, and only its connections are lost: counters are in shared memory or in Redis, and the pool
 * releases the locks that it may have held.
 */
import { Worker } from "node:worker_threads";
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { HistogramKind } from "@gatewayproxy/runtime/metric-families";
import type { Logger } from "@gatewayproxy/runtime/log";
import type { ThreadProfile } from "@gatewayproxy/runtime/pprof";
import { ThreadTotals } from "@gatewayproxy/runtime/thread-totals";
import type { ConfigUpdate } from "../config/config-source.ts";
import { mergeStatsOfEnded, type StatsSnapshot } from "../metrics/stats-snapshot.ts";
import type { MemoryTables } from "../store/memory-tables.ts";
import type { FromWorker, ToWorker, WorkerStart } from "./messages.ts";

/** The number of workers, and the data that each starts with. */
export interface WorkerPoolOptions {
  /** At least 1. */
  readonly workers: number;
  /** Start data of each worker, without its number. */
  readonly start: Omit<WorkerStart, "thread">;
  /** The IP address on which all workers listen. */
  readonly host: string;
  /** 0 lets the system choose one port for all workers. */
  readonly port: number;
  /** The counters in memory, if there are any; the locks of a dead worker are released in them. */
  readonly counters: MemoryTables | undefined;
  /** Times the start of a replacement, after 1 s. */
  readonly clock: Clock;
  /** Receives starts and ends of workers. */
  readonly log: Logger;
}

/**
 * Maximum size of a worker's young generation. The objects of a call are garbage by the next call, so a small one is
 * enough and keeps the memory of a thread small. The main thread gets its own by a flag of Node.js in package.json.
 */
const maxYoungGenerationSizeMb = 12;
/** Delay before a worker that died is replaced, in ms. */
const restartDelayMs = 1_000;

/** The worker threads of a process. `listen` starts them and `close` ends them. */
export class WorkerPool {
  readonly #options: WorkerPoolOptions;
  readonly #workers = new Map<number, WorkerThread>();
  readonly #totals = new ThreadTotals(mergeStatsOfEnded);
  #port: number;
  #update: ConfigUpdate | undefined;
  #isClosing = false;

  constructor(options: WorkerPoolOptions) {
    this.#options = options;
    this.#port = options.port;
  }

  /** The running threads, for the profiler. */
  get threads(): readonly Worker[] {
    return Array.from(this.#workers.values(), ({ thread }) => thread);
  }

  /** Starts all workers. Resolves with the port; rejects with the reason when one cannot listen. */
  async listen(): Promise<number> {
    for (let number = 1; number <= this.#options.workers; number++) this.#port = await this.#start(number);
    return this.#port;
  }

  postConfig(update: ConfigUpdate): void {
    this.#update = withoutParsedConfig(update);
    this.#options.log.debug({ workers: this.#workers.size }, "configuration sent to the workers");
    for (const worker of this.#workers.values()) worker.post({ kind: "config", update: this.#update });
  }

  /** Collects the counts of all workers, with the last known counts of those that died. */
  async collectStats(histograms: HistogramKind = "classic"): Promise<readonly StatsSnapshot[]> {
    const responses = await Promise.all(
      Array.from(this.#workers, async ([number, worker]) => {
        const response = await worker.request((request) => ({ kind: "stats", request, histograms }));
        if (response?.kind !== "stats") return [];
        this.#totals.record(number, response.stats);
        return [response.stats];
      }),
    );
    return [...responses.flat(), ...this.#totals.retired];
  }

  /** Collects the live heap samples of each worker. A worker that dies meanwhile is left out. */
  async collectHeapSamples(): Promise<readonly ThreadProfile[]> {
    const responses = await Promise.all(
      Array.from(this.#workers, async ([number, worker]) => {
        return { number, response: await worker.request((request) => ({ kind: "heapSamples", request })) };
      }),
    );
    return responses.flatMap(({ number, response }) =>
      response?.kind === "heapSamples" ? [{ thread: `worker ${number}`, json: response.samples }] : [],
    );
  }

  /** Reports "not serving" from now on. */
  withdraw(): void {
    this.#isClosing = true;
    for (const worker of this.#workers.values()) worker.post({ kind: "withdraw" });
  }

  /** Resolves when every worker has finished its calls, or aborted them after `graceMs`. */
  async close(graceMs: number): Promise<void> {
    this.#isClosing = true;
    await Promise.all(
      Array.from(this.#workers.values(), async (worker) => {
        await worker.request((request) => ({ kind: "close", request, graceMs }));
        await worker.thread.terminate();
      }),
    );
  }

  async #start(number: number): Promise<number> {
    const { start, host, counters, clock, log } = this.#options;
    const worker = new WorkerThread({ ...start, thread: number }, (cause) => {
      this.#workers.delete(number);
      this.#totals.retire(number);
      // As in CallThread: owners are numbered from 1, and 1 is the main thread.
      counters?.releaseLocksOf(number + 1);
      if (this.#isClosing) return;
      log.error({ worker: number, err: cause }, "worker died; another takes its place");
      clock.setTimer(restartDelayMs, () => {
        this.#start(number).catch((error: unknown) =>
          log.error({ worker: number, err: error }, "worker cannot listen"),
        );
      });
    });
    this.#workers.set(number, worker);
    if (this.#update !== undefined) worker.post({ kind: "config", update: this.#update });
    const address = { kind: "tcp", host, port: this.#port, reusePort: true } as const;
    const response = await worker.request((request) => ({ kind: "listen", request, address }));
    if (response?.kind === "listening") {
      log.debug({ worker: number, port: response.address }, "worker listens");
      return Number(response.address);
    }
    throw new Error(response?.kind === "failed" ? response.message : "the worker died");
  }
}

/**
 * Removes the parsed configuration if the update has the xDS bytes. Copying a large configuration blocks both threads
 * for its many objects. The bytes are one object, and each worker parses them in slices.
 */
function withoutParsedConfig({ config, ...update }: ConfigUpdate): ConfigUpdate {
  return config === undefined || update.xds !== undefined ? update : { config, ...update };
}

/** One thread, and the requests that it has not replied to. */
class WorkerThread {
  readonly thread: Worker;
  readonly #pending = new Map<number, (message: FromWorker | undefined) => void>();
  #requests = 0;
  #hasExited = false;

  /** @param onDeath called once, when the thread has ended */
  constructor(start: WorkerStart, onDeath: (cause: unknown) => void) {
    this.thread = new Worker(new URL("./worker.ts", import.meta.url), {
      workerData: start,
      name: `worker ${start.thread}`,
      resourceLimits: { maxYoungGenerationSizeMb },
    });
    let cause: unknown;
    this.thread.on("message", (message: FromWorker) => {
      this.#pending.get(message.request)?.(message);
      this.#pending.delete(message.request);
    });
    this.thread.on("error", (error: unknown) => {
      cause = error;
    });
    this.thread.on("exit", () => {
      this.#hasExited = true;
      for (const resolve of this.#pending.values()) resolve(undefined);
      onDeath(cause);
    });
  }

  post(message: ToWorker): void {
    this.thread.postMessage(message);
  }

  /** Sends a request. Resolves with the reply, or with `undefined` when the thread ends first. */
  request(createMessage: (request: number) => ToWorker): Promise<FromWorker | undefined> {
    const request = this.#requests++;
    return new Promise((resolve) => {
      if (this.#hasExited) {
        resolve(undefined);
        return;
      }
      this.#pending.set(request, resolve);
      this.post(createMessage(request));
    });
  }
}
