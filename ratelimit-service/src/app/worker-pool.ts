/**
 * The worker threads as the main thread sees them: all get the same configuration and listen on the same port, and one
 * that dies is replaced. Its connections go with it, nothing else: counters are in shared memory or in Redis, and the
 * locks that it may have held are freed here.
 */
import { Worker } from "node:worker_threads";
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { Logger } from "@gatewayproxy/runtime/log";
import type { ThreadProfile } from "@gatewayproxy/runtime/pprof";
import { ThreadTotals } from "@gatewayproxy/runtime/thread-totals";
import type { ConfigUpdate } from "../config/config-source.ts";
import { mergeStatsOfEnded, type StatsSnapshot } from "../metrics/stats-snapshot.ts";
import type { CounterTable } from "../store/counter-table.ts";
import type { FromWorker, ToWorker, WorkerStart } from "./messages.ts";

export interface WorkerPoolOptions {
  readonly workers: number;
  readonly start: Omit<WorkerStart, "thread">;
  readonly host: string;
  /** 0 has the system choose, once for all. */
  readonly port: number;
  readonly counters: CounterTable;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * What a call leaves behind is garbage by the next one, so a small nursery does, and the memory of a thread stays small.
 * The main thread has its own by a flag of Node, in package.json.
 */
const maxYoungGenerationSizeMb = 12;
/** A worker that dies at once is not started again at once. */
const restartDelayMs = 1_000;

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

  /** The threads that run, for the profiler. */
  get threads(): readonly Worker[] {
    return Array.from(this.#workers.values(), ({ thread }) => thread);
  }

  /** Starts all workers; resolves with the port, rejects with the reason when one cannot listen. */
  async listen(): Promise<number> {
    for (let number = 1; number <= this.#options.workers; number++) this.#port = await this.#start(number);
    return this.#port;
  }

  takeConfig(update: ConfigUpdate): void {
    this.#update = forWorkers(update);
    this.#options.log.debug({ workers: this.#workers.size }, "configuration handed to the workers");
    for (const worker of this.#workers.values()) worker.tell({ kind: "config", update: this.#update });
  }

  /** What the workers have counted, those included that have died, as they were last asked. */
  async collectStats(): Promise<readonly StatsSnapshot[]> {
    const answers = await Promise.all(
      Array.from(this.#workers, async ([number, worker]) => {
        const answer = await worker.ask((request) => ({ kind: "stats", request }));
        if (answer?.kind !== "stats") return [];
        this.#totals.heard(number, answer.stats);
        return [answer.stats];
      }),
    );
    return [...answers.flat(), ...this.#totals.ofEnded];
  }

  /** What is alive in each worker's heap; nothing of one that dies meanwhile. */
  async collectHeapSamples(): Promise<readonly ThreadProfile[]> {
    const answers = await Promise.all(
      Array.from(this.#workers, async ([number, worker]) => {
        return { number, answer: await worker.ask((request) => ({ kind: "heapSamples", request })) };
      }),
    );
    return answers.flatMap(({ number, answer }) =>
      answer?.kind === "heapSamples" ? [{ thread: `worker ${number}`, json: answer.samples }] : [],
    );
  }

  /** Health turns to not serving. */
  withdraw(): void {
    this.#isClosing = true;
    for (const worker of this.#workers.values()) worker.tell({ kind: "withdraw" });
  }

  /** Resolves when every worker has finished its calls, or given them up after `graceMs`. */
  async close(graceMs: number): Promise<void> {
    this.#isClosing = true;
    await Promise.all(
      Array.from(this.#workers.values(), async (worker) => {
        await worker.ask((request) => ({ kind: "close", request, graceMs }));
        await worker.thread.terminate();
      }),
    );
  }

  async #start(number: number): Promise<number> {
    const { start, host, counters, clock, log } = this.#options;
    const worker = new WorkerThread({ ...start, thread: number }, (cause) => {
      this.#workers.delete(number);
      this.#totals.ended(number);
      // As in CallThread: an owner is 1 at least, and that is the main thread.
      counters.releaseLocksOf(number + 1);
      if (this.#isClosing) return;
      log.error({ worker: number, err: cause }, "worker died; another takes its place");
      clock.setTimer(restartDelayMs, () => {
        this.#start(number).catch((error: unknown) =>
          log.error({ worker: number, err: error }, "worker cannot listen"),
        );
      });
    });
    this.#workers.set(number, worker);
    if (this.#update !== undefined) worker.tell({ kind: "config", update: this.#update });
    const address = { kind: "tcp", host, port: this.#port, reusePort: true } as const;
    const answer = await worker.ask((request) => ({ kind: "listen", request, address }));
    if (answer?.kind === "listening") {
      log.debug({ worker: number, port: answer.address }, "worker listens");
      return Number(answer.address);
    }
    throw new Error(answer?.kind === "failed" ? answer.message : "the worker died");
  }
}

/** To copy a large configuration holds both threads for long; its bytes are quick, and each worker reads them in turns. */
function forWorkers({ config, ...update }: ConfigUpdate): ConfigUpdate {
  return config === undefined || update.xds !== undefined ? update : { config, ...update };
}

/** One thread and the answers that are awaited from it. */
class WorkerThread {
  readonly thread: Worker;
  readonly #awaited = new Map<number, (message: FromWorker | undefined) => void>();
  #requests = 0;
  #isGone = false;

  /** @param onDeath called once, when the thread has ended */
  constructor(start: WorkerStart, onDeath: (cause: unknown) => void) {
    this.thread = new Worker(new URL("./worker.ts", import.meta.url), {
      workerData: start,
      name: `worker ${start.thread}`,
      resourceLimits: { maxYoungGenerationSizeMb },
    });
    let cause: unknown;
    this.thread.on("message", (message: FromWorker) => {
      this.#awaited.get(message.request)?.(message);
      this.#awaited.delete(message.request);
    });
    this.thread.on("error", (error: unknown) => {
      cause = error;
    });
    this.thread.on("exit", () => {
      this.#isGone = true;
      for (const resolve of this.#awaited.values()) resolve(undefined);
      onDeath(cause);
    });
  }

  tell(message: ToWorker): void {
    this.thread.postMessage(message);
  }

  /** The answer; `undefined` when the thread ends before it gives one. */
  ask(messageOf: (request: number) => ToWorker): Promise<FromWorker | undefined> {
    const request = this.#requests++;
    return new Promise((resolve) => {
      if (this.#isGone) {
        resolve(undefined);
        return;
      }
      this.#awaited.set(request, resolve);
      this.tell(messageOf(request));
    });
  }
}
