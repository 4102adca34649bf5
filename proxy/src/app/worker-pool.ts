/**
 * The worker threads as the main thread sees them: gives every one the same snapshot, collects what each has counted,
 * and puts a new one in the place of one that dies. A worker that dies takes its connections along, nothing else: the
 * counters are in shared memory, and the locks that it may have held are freed here.
 */
import { Worker } from "node:worker_threads";
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { Logger } from "@gatewayproxy/runtime/log";
import type { MetricsSnapshot } from "@gatewayproxy/runtime/metrics";
import type { Snapshot } from "../ir/snapshot.ts";
import type { CounterTable } from "../policy/ratelimit/counter-table.ts";
import type { BindFailure } from "../server/data-plane.ts";
import type { FromWorker, ToWorker, WorkerStart } from "./messages.ts";

export interface WorkerPoolOptions {
  /** At least 1. */
  readonly workers: number;
  /** What each worker starts with, but for its number. */
  readonly start: Omit<WorkerStart, "worker" | "reusePort">;
  readonly counters: CounterTable;
  readonly clock: Clock;
  readonly log: Logger;
  readonly onRestart: () => void;
}

/** A worker that dies at once is not started again at once. */
const restartDelayMs = 1_000;

export class WorkerPool {
  readonly #options: WorkerPoolOptions;
  readonly #workers = new Map<number, WorkerThread>();
  #snapshot: Snapshot | undefined;
  #isDraining = false;

  constructor(options: WorkerPoolOptions) {
    this.#options = options;
    for (let worker = 1; worker <= options.workers; worker++) this.#start(worker);
  }

  /** Resolves when every worker serves `snapshot`, with the binds that some worker could not open, each once. */
  async apply(snapshot: Snapshot): Promise<readonly BindFailure[]> {
    this.#snapshot = snapshot;
    const failures = await Promise.all(Array.from(this.#workers.values(), (worker) => worker.apply(snapshot)));
    const distinct = new Map(failures.flat().map((failure) => [`${failure.address ?? ""} ${failure.port}`, failure]));
    return [...distinct.values()];
  }

  /** What each worker has counted since its start; nothing of one that dies meanwhile. */
  async collectMetrics(): Promise<readonly MetricsSnapshot[]> {
    const snapshots = await Promise.all(Array.from(this.#workers.values(), (worker) => worker.collectMetrics()));
    return snapshots.filter((snapshot) => snapshot !== undefined);
  }

  /** Workers that are running. */
  get size(): number {
    return this.#workers.size;
  }

  /** Resolves when every worker has finished what was under way; at `signal` they are stopped instead. */
  async drain(signal: AbortSignal): Promise<void> {
    this.#isDraining = true;
    await Promise.all(Array.from(this.#workers.values(), (worker) => worker.drain(signal)));
  }

  #start(number: number): void {
    const { start, workers, log, clock, counters, onRestart } = this.#options;
    const thread = new WorkerThread({ ...start, worker: number, reusePort: workers > 1 }, (cause) => {
      this.#workers.delete(number);
      counters.releaseLocksOf(number);
      if (this.#isDraining) return;
      log.error({ worker: number, err: cause }, "worker died; another takes its place");
      onRestart();
      clock.setTimer(restartDelayMs, () => this.#start(number));
    });
    this.#workers.set(number, thread);
    if (this.#snapshot !== undefined) void thread.apply(this.#snapshot);
  }
}

/** One thread and the answers that are awaited from it. */
class WorkerThread {
  readonly #thread: Worker;
  readonly #awaited = new Map<string, (message: FromWorker) => void>();
  #requests = 0;
  #isGone = false;

  /** @param onDeath called once if the thread ends unasked. */
  constructor(start: WorkerStart, onDeath: (cause: unknown) => void) {
    this.#thread = new Worker(new URL("./worker.ts", import.meta.url), {
      workerData: start,
      name: `worker ${start.worker}`,
    });
    let cause: unknown;
    this.#thread.on("message", (message: FromWorker) => this.#receive(message));
    this.#thread.on("error", (error: unknown) => {
      cause = error;
    });
    this.#thread.on("exit", () => {
      if (this.#isGone) return;
      this.#isGone = true;
      onDeath(cause);
      this.#answerAll();
    });
  }

  async apply(snapshot: Snapshot): Promise<readonly BindFailure[]> {
    const message = await this.#ask(`applied ${snapshot.generation}`, { kind: "apply", snapshot });
    return message.kind === "applied" ? message.failures : [];
  }

  async collectMetrics(): Promise<MetricsSnapshot | undefined> {
    const request = this.#requests++;
    const message = await this.#ask(`metrics ${request}`, { kind: "collectMetrics", request });
    return message.kind === "metrics" ? message.metrics : undefined;
  }

  async drain(signal: AbortSignal): Promise<void> {
    const stop = (): void => this.#answerAll();
    signal.addEventListener("abort", stop, { once: true });
    await this.#ask("drained", { kind: "drain" });
    this.#isGone = true;
    await this.#thread.terminate();
  }

  /** A thread that is gone answers `drained` to everything, so that nobody waits for it. */
  #ask(answer: string, message: ToWorker): Promise<FromWorker> {
    return new Promise((resolve) => {
      this.#awaited.set(answer, resolve);
      this.#thread.postMessage(message);
      if (this.#isGone) this.#answerAll();
    });
  }

  #receive(message: FromWorker): void {
    const answer = answerOf(message);
    this.#awaited.get(answer)?.(message);
    this.#awaited.delete(answer);
  }

  #answerAll(): void {
    for (const resolve of this.#awaited.values()) resolve({ kind: "drained" });
    this.#awaited.clear();
  }
}

function answerOf(message: FromWorker): string {
  switch (message.kind) {
    case "applied":
      return `applied ${message.generation}`;
    case "metrics":
      return `metrics ${message.request}`;
    case "drained":
      return "drained";
  }
}
