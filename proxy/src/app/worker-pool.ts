/**
 * Controls the worker threads from the main thread: sends the same snapshot to all, sends queries, and replaces a
 * worker that dies. Only the connections of a dead worker are lost. The counters are in shared memory, and its locks on
 * them are released here.
 */
import { setImmediate as nextTurn } from "node:timers/promises";
import { type MessagePort, Worker } from "node:worker_threads";
import type { TraceEvent } from "@gatewayproxy/admin-api/trace-event";
import { type AddressRules, unrestricted } from "@gatewayproxy/runtime/address-rules";
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { Logger } from "@gatewayproxy/runtime/log";
import { mergeMetrics, type MetricsSnapshot, withoutGauges } from "@gatewayproxy/runtime/metrics";
import type { HistogramKind } from "@gatewayproxy/runtime/metric-families";
import type { OtlpTransport } from "@gatewayproxy/runtime/otlp-sender";
import { ThreadTotals } from "@gatewayproxy/runtime/thread-totals";
import type { CounterTable } from "../policy/ratelimit/counter-table.ts";
import type { BodyBudget } from "../pipeline/body/body-budget.ts";
import type { ProviderStates } from "../upstream/provider-states.ts";
import { type BindFailure, bindName } from "../data-plane/data-plane.ts";
import { ownMetrics } from "../telemetry/metric-table.ts";
import type {
  ResultOf,
  ArgumentOf,
  FromWorker,
  QueryMessage,
  QueryName,
  ToWorker,
  SentWatch,
  WorkerStart,
} from "./messages.ts";
import { PortClaims } from "./port-claims.ts";
import { TokenThread } from "./token-thread-host.ts";
import { batchesOf, SentParts } from "./sent-parts.ts";
import type { PackedSnapshot } from "./snapshot-parts.ts";

/** Start data of every worker, without the fields that are known later. */
export type WorkerPoolStart = Omit<WorkerStart, "worker" | "workers" | "addresses">;

/** The number of workers, their shared objects, and the receivers of their events. */
export interface WorkerPoolOptions {
  /** At least 1. */
  readonly workers: number;
  /** Maximum heap of a worker in MiB; undefined: V8's default. */
  readonly heapMib: number | undefined;
  /** Start data of each worker. */
  readonly start: WorkerPoolStart;
  /** The counters of local limits; the locks of a dead worker are released in them. */
  readonly counters: CounterTable;
  /** The states of LLM providers; the lock of a dead worker is released in them. */
  readonly providers: ProviderStates;
  /** The memory of request bodies; the bytes of a dead worker are released in it. */
  readonly bodies: BodyBudget;
  /** Schedules replacements of workers, and measures the application of snapshots. */
  readonly clock: Clock;
  /** Receives starts and ends of workers. */
  readonly log: Logger;
  /** Called when a worker died and will be replaced. */
  readonly onRestart: (worker: number) => void;
  /**
   * Called when the replacement of a worker could not open every bind; a call of `apply` then retries and reports them.
   */
  readonly onBindFailure: () => void;
  /** Returns the active watches, which are sent to a worker when it starts. */
  readonly unclaimedWatches: () => readonly SentWatch[];
  /** Called with each event of a watched request. */
  readonly onTraced: (watch: number, event: TraceEvent | undefined) => void;
  /**
   * Writes lines to the file of the access log, and resolves with the number of lost ones; undefined without a file.
   */
  readonly appendAccessLines: ((lines: string) => Promise<number>) | undefined;
  /** Opens a sender of OTLP messages for the worker that has the other end of the port. */
  readonly serveSender: (transport: OtlpTransport, port: MessagePort) => void;
}

/** The unexpected ends of a worker. */
export interface WorkerDeaths {
  /** Its number, from 1. */
  readonly worker: number;
  /** Number of ends since the process started. */
  readonly count: number;
  /** The last end, in milliseconds since the epoch, and its cause. */
  readonly lastMs: number;
  readonly lastCause: string;
}

/** Delay before a dead worker is replaced. */
const restartDelayMs = 1_000;

/** The worker threads of a process. `open` starts them, `drain` ends them. */
export class WorkerPool {
  readonly #options: WorkerPoolOptions;
  readonly #workers = new Map<number, WorkerThread>();
  readonly #deaths = new Map<number, WorkerDeaths>();
  readonly #totals = new ThreadTotals<MetricsSnapshot>((counted) => withoutGauges(mergeMetrics(counted), ownMetrics));
  readonly #ports: PortClaims;
  readonly #tokenThread: TokenThread;
  #snapshot: PackedSnapshot | undefined;
  #isLeaving = false;
  #isDraining = false;
  #logFilter: string;
  #addresses = unrestricted;

  constructor(options: WorkerPoolOptions) {
    this.#options = options;
    this.#ports = new PortClaims();
    this.#tokenThread = new TokenThread(options.log);
    this.#logFilter = options.start.logFilter;
  }

  /**
   * Starts the workers. Must be called once, before `apply`.
   *
   * @param addresses Rules on the addresses to which no connection is opened.
   */
  open(addresses: AddressRules): void {
    this.#addresses = addresses;
    for (let worker = 1; worker <= this.#options.workers; worker++) this.#start(worker);
  }

  /**
   * Applies a snapshot. Resolves when every worker serves it, with the binds that a worker could not open, without
   * duplicates.
   */
  async apply({ frame, groups }: PackedSnapshot): Promise<readonly BindFailure[]> {
    const taken = await this.#ports.claim(frame.binds);
    const takenNames = new Set(taken.map(bindName));
    const binds = frame.binds.filter((bind) => !takenNames.has(bindName(bind)));
    const usable = { frame: { ...frame, binds }, groups };
    this.#snapshot = usable;
    const failures = await Promise.all(
      Array.from(this.#workers, ([number, worker]) => this.#applyTo(number, worker, usable)),
    );
    const distinct = new Map([...taken, ...failures.flat()].map((failure) => [bindName(failure), failure]));
    return [...distinct.values()];
  }

  async #applyTo(number: number, worker: WorkerThread, snapshot: PackedSnapshot): Promise<readonly BindFailure[]> {
    const { log, clock } = this.#options;
    const startMs = clock.monotonicMs();
    const failures = await worker.apply(snapshot);
    const durationMs = Math.round(clock.monotonicMs() - startMs);
    const { generation } = snapshot.frame;
    log.debug({ worker: number, generation, durationMs, failures: failures.length }, "worker serves a snapshot");
    return failures;
  }

  /**
   * Sends a query to every worker. Returns the results in the order of the workers' numbers, except those of workers
   * that die before they respond.
   */
  async query<Name extends QueryName>(
    name: Name,
    argument: ArgumentOf<Name>,
  ): Promise<readonly WorkerResult<ResultOf<Name>>[]> {
    this.#options.log.trace({ query: name, workers: this.#workers.size }, "workers queried");
    const results = await Promise.all(
      Array.from(this.#workers, async ([worker, thread]) => ({ worker, result: await thread.query(name, argument) })),
    );
    return results
      .filter((response): response is WorkerResult<ResultOf<Name>> => response.result !== workerEnded)
      .sort((a, b) => a.worker - b.worker);
  }

  /**
   * Returns the metrics of the workers. Those of dead workers are included as of the last query.
   *
   * @param histograms which histograms the workers keep from now on. They keep native ones as long as they run.
   */
  async metrics(histograms: HistogramKind = "classic"): Promise<readonly MetricsSnapshot[]> {
    const results = await this.query("metrics", histograms === "native");
    for (const { worker, result } of results) this.#totals.record(worker, result);
    return [...results.map(({ result }) => result), ...this.#totals.retired];
  }

  /** Sets the log filter of future workers. The query `setLogFilter` sets it in running ones. */
  setLogFilter(filter: string): void {
    this.#logFilter = filter;
  }

  /** The running threads, by number. */
  get threads(): readonly Worker[] {
    return [...this.#workers].sort(([a], [b]) => a - b).map(([, { thread }]) => thread);
  }

  /** The deaths of all workers since the start, in the order of their first deaths. */
  get deaths(): readonly WorkerDeaths[] {
    return [...this.#deaths.values()];
  }

  /** The number of running workers. */
  get size(): number {
    return this.#workers.size;
  }

  /** Makes every worker ask its clients to close their connections, while it continues to serve. */
  leave(): void {
    this.#isLeaving = true;
    for (const worker of this.#workers.values()) worker.leave();
  }

  /**
   * Resolves when every worker has finished its requests in progress and ended. Aborting `signal` ends the workers at
   * once.
   *
   * @param withinMs after which relayed connections and sessions are closed; absent: at once.
   */
  async drain(signal: AbortSignal, withinMs = 0): Promise<void> {
    this.#isDraining = true;
    await Promise.all(
      Array.from(this.#workers, async ([number, worker]) => {
        const last = await worker.drain(signal, withinMs);
        if (last !== workerEnded) this.#totals.record(number, last);
        this.#totals.retire(number);
        this.#options.counters.releaseLocksOf(number);
      }),
    );
    await this.#tokenThread.close();
  }

  #start(number: number): void {
    const { log, clock, counters, bodies, providers, onRestart, onTraced, onBindFailure, unclaimedWatches } =
      this.#options;
    const onDeath = (cause: unknown): void => {
      this.#workers.delete(number);
      this.#totals.retire(number);
      counters.releaseLocksOf(number);
      counters.releaseUnitsOf(number);
      bodies.releaseOf(number);
      providers.releaseLocksOf(number);
      if (this.#isDraining) return;
      log.error({ worker: number, err: cause }, "worker died; it is replaced");
      this.#deaths.set(number, {
        worker: number,
        count: (this.#deaths.get(number)?.count ?? 0) + 1,
        lastMs: clock.nowMs(),
        lastCause: cause instanceof Error ? cause.message : "it exited",
      });
      onRestart(number);
      clock.setTimer(restartDelayMs, () => this.#start(number));
    };
    const { appendAccessLines, serveSender } = this.#options;
    const onTokenPort = (port: MessagePort): void => this.#tokenThread.connect(port);
    const events = { onDeath, onTraced, appendAccessLines, onTokenPort, serveSender };
    const thread = new WorkerThread(this.#startOf(number), this.#options.heapMib, events);
    this.#workers.set(number, thread);
    log.debug({ worker: number, generation: this.#snapshot?.frame.generation }, "worker started");
    if (this.#isLeaving) thread.leave();
    // Sent before the snapshot, so that no request is missed.
    for (const watch of unclaimedWatches()) void thread.query("watch", watch);
    if (this.#snapshot === undefined) return;
    void this.#applyTo(number, thread, this.#snapshot).then((failures) => {
      if (failures.length > 0 && !this.#isDraining) onBindFailure();
    });
  }

  #startOf(worker: number): WorkerStart {
    const { start, workers } = this.#options;
    return { ...start, worker, workers, addresses: this.#addresses, logFilter: this.#logFilter };
  }
}

/** The result of a query to one worker. */
export interface WorkerResult<Result> {
  /** Its number, from 1. */
  readonly worker: number;
  readonly result: Result;
}

/** The result of a query to a worker that died. */
const workerEnded = Symbol("the worker has ended");

interface ThreadEvents {
  /** Called once if the thread ends unexpectedly. */
  readonly onDeath: (cause: unknown) => void;
  readonly onTraced: WorkerPoolOptions["onTraced"];
  readonly appendAccessLines: WorkerPoolOptions["appendAccessLines"];
  /** Called with the port of the worker for the thread that counts tokens. */
  readonly onTokenPort: (port: MessagePort) => void;
  readonly serveSender: WorkerPoolOptions["serveSender"];
}

/**
 * Maximum MiB of the young generation of a worker: three semi-spaces of V8. With V8's default, the memory of a loaded
 * worker is 4 to 33 MiB larger, and its CPU time is the same (`npm run bench`).
 */
const youngGenerationMib = 24;

/** One thread and its pending queries. */
class WorkerThread {
  readonly thread: Worker;
  readonly #pending = new Map<string, (message: FromWorker) => void>();
  readonly #onTraced: ThreadEvents["onTraced"];
  readonly #appendAccessLines: ThreadEvents["appendAccessLines"];
  readonly #onTokenPort: ThreadEvents["onTokenPort"];
  readonly #serveSender: ThreadEvents["serveSender"];
  readonly #parts = new SentParts();
  #sent: Promise<unknown> = Promise.resolve();
  #requests = 0;
  #hasEnded = false;

  constructor(
    start: WorkerStart,
    heapMib: number | undefined,
    { onDeath, onTraced, appendAccessLines, onTokenPort, serveSender }: ThreadEvents,
  ) {
    this.#onTraced = onTraced;
    this.#appendAccessLines = appendAccessLines;
    this.#onTokenPort = onTokenPort;
    this.#serveSender = serveSender;
    this.thread = new Worker(new URL("./worker.ts", import.meta.url), {
      workerData: start,
      name: `worker ${start.worker}`,
      resourceLimits: {
        maxYoungGenerationSizeMb: youngGenerationMib,
        ...(heapMib !== undefined && { maxOldGenerationSizeMb: heapMib }),
      },
    });
    let cause: unknown;
    this.thread.on("message", (message: FromWorker) => this.#receive(message));
    this.thread.on("error", (error: unknown) => {
      cause = error;
    });
    this.thread.on("exit", () => {
      if (this.#hasEnded) return;
      this.#hasEnded = true;
      onDeath(cause);
      this.#resolveAll();
    });
  }

  async apply(snapshot: PackedSnapshot): Promise<readonly BindFailure[]> {
    // Snapshots are sent one after the other, because the parts to send depend on those sent before.
    const sent = this.#sent.then(() => this.#send(snapshot));
    this.#sent = sent;
    const message = await (await sent).response;
    return message.kind === "applied" ? message.failures : [];
  }

  async #send(snapshot: PackedSnapshot): Promise<{ readonly response: Promise<FromWorker> }> {
    const { added, removed } = this.#parts.next(snapshot.groups);
    for (const parts of batchesOf(added)) {
      this.#post({ kind: "parts", parts });
      await nextTurn();
    }
    const id = this.#requests++;
    return { response: this.#request(`applied ${id}`, { kind: "apply", id, frame: snapshot.frame, removed }) };
  }

  async query<Name extends QueryName>(
    name: Name,
    argument: ArgumentOf<Name>,
  ): Promise<ResultOf<Name> | typeof workerEnded> {
    const id = this.#requests++;
    // TypeScript cannot check that a generic name and its argument form a member of the union.
    const message = await this.#request(`result ${id}`, { kind: "query", id, name, argument } as QueryMessage);
    // The worker returns the result type of the query (`QueryHandlers`).
    return message.kind === "result" ? (message.result as ResultOf<Name>) : workerEnded;
  }

  leave(): void {
    this.#post({ kind: "leave" });
  }

  /** @returns what it has counted, if it could say so. */
  async drain(signal: AbortSignal, withinMs = 0): Promise<MetricsSnapshot | typeof workerEnded> {
    const stop = (): void => this.#resolveAll();
    signal.addEventListener("abort", stop, { once: true });
    await this.#request("drained", { kind: "drain", withinMs });
    const counted = signal.aborted ? workerEnded : await this.query("metrics", false);
    this.#hasEnded = true;
    await this.thread.terminate();
    return counted;
  }

  /**
   * Sends a message and resolves with its response. Requests to an ended thread resolve with `drained`, so that no
   * caller waits for ever.
   */
  #request(response: string, message: ToWorker): Promise<FromWorker> {
    return new Promise((resolve) => {
      this.#pending.set(response, resolve);
      this.#post(message);
      if (this.#hasEnded) this.#resolveAll();
    });
  }

  #post(message: ToWorker): void {
    this.thread.postMessage(message);
  }

  #receive(message: FromWorker): void {
    if (message.kind === "traced") {
      this.#onTraced(message.watch, message.event);
      return;
    }
    if (message.kind === "accessLines") {
      void this.#appendAccessLines?.(message.lines).then((lost) => this.#post({ kind: "accessLinesWritten", lost }));
      return;
    }
    if (message.kind === "tokenPort") {
      this.#onTokenPort(message.port);
      return;
    }
    if (message.kind === "senderPort") {
      this.#serveSender(message.transport, message.port);
      return;
    }
    const response = responseKey(message);
    this.#pending.get(response)?.(message);
    this.#pending.delete(response);
  }

  #resolveAll(): void {
    for (const resolve of this.#pending.values()) resolve({ kind: "drained" });
    this.#pending.clear();
  }
}

function responseKey(
  message: Exclude<FromWorker, { kind: "traced" | "accessLines" | "tokenPort" | "senderPort" }>,
): string {
  switch (message.kind) {
    case "applied":
      return `applied ${message.id}`;
    case "result":
      return `result ${message.id}`;
    case "drained":
      return "drained";
  }
}
