/**
 * The worker threads as the main thread sees them: gives every one the same snapshot, asks them all,
 * and puts a new one in the place of one that dies. A worker that dies takes its connections along, nothing else: the
 * counters are in shared memory, and the locks that it may have held are freed here.
 */
import { setImmediate as nextTurn } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import type { TraceEvent } from "@gatewayproxy/admin-api/trace-event";
import { type AddressRules, unrestricted } from "@gatewayproxy/runtime/address-rules";
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { Logger } from "@gatewayproxy/runtime/log";
import { mergeMetrics, type MetricsSnapshot, withoutGauges } from "@gatewayproxy/runtime/metrics";
import { ThreadTotals } from "@gatewayproxy/runtime/thread-totals";
import type { CounterTable } from "../policy/ratelimit/counter-table.ts";
import type { BodyBudget } from "../server/body-budget.ts";
import { type BindFailure, bindName } from "../server/data-plane.ts";
import { metricTable } from "../telemetry/metric-table.ts";
import type {
  AnswerOf,
  AskOf,
  FromWorker,
  QueryMessage,
  QueryName,
  ToWorker,
  WatchOrder,
  WorkerStart,
} from "./messages.ts";
import { PortClaims } from "./port-claims.ts";
import { batchesOf, type PackedSnapshot, type PartKey } from "./snapshot-parts.ts";

export interface WorkerPoolOptions {
  /** At least 1. */
  readonly workers: number;
  /** MiB of the heap of a worker; undefined: as V8 decides. */
  readonly heapMib: number | undefined;
  /** What each worker starts with, but for its number and what is known only when the pool opens. */
  readonly start: Omit<WorkerStart, "worker" | "reusePort" | "addresses">;
  readonly counters: CounterTable;
  readonly bodies: BodyBudget;
  readonly clock: Clock;
  readonly log: Logger;
  /** A worker died, and another will take its place. */
  readonly onRestart: (worker: number) => void;
  /** That other could not open every bind; `apply` tells which, and tries again. */
  readonly onUnopened: () => void;
  /** Those who wait for a request, of whom a worker that starts is told. */
  readonly waiting: () => readonly WatchOrder[];
  /** Hears of a request that is watched. */
  readonly onTraced: (watch: number, event: TraceEvent | undefined) => void;
}

/** How a worker ended unasked. */
export interface WorkerDeaths {
  /** Its number, from 1. */
  readonly worker: number;
  /** How often, since the start. */
  readonly count: number;
  /** The last time, wall time in ms, and what it was of. */
  readonly lastMs: number;
  readonly lastCause: string;
}

/** A worker that dies at once is not started again at once. */
const restartDelayMs = 1_000;

export class WorkerPool {
  readonly #options: WorkerPoolOptions;
  readonly #workers = new Map<number, WorkerThread>();
  readonly #deaths = new Map<number, WorkerDeaths>();
  readonly #totals = new ThreadTotals<MetricsSnapshot>((counted) => withoutGauges(mergeMetrics(counted), metricTable));
  readonly #ports: PortClaims;
  #snapshot: PackedSnapshot | undefined;
  #isLeaving = false;
  #isDraining = false;
  #logFilter: string;
  #addresses = unrestricted;

  constructor(options: WorkerPoolOptions) {
    this.#options = options;
    this.#ports = new PortClaims();
    this.#logFilter = options.start.logFilter;
  }

  /** Starts the workers; to be called once, before `apply`. @param addresses where nothing connects to. */
  open(addresses: AddressRules): void {
    this.#addresses = addresses;
    for (let worker = 1; worker <= this.#options.workers; worker++) this.#start(worker);
  }

  /** Resolves when every worker serves `snapshot`, with the binds that some worker could not open, each once. */
  async apply({ frame, parts }: PackedSnapshot): Promise<readonly BindFailure[]> {
    const taken = await this.#ports.take(frame.binds);
    const others = new Set(taken.map(bindName));
    const binds = frame.binds.filter((bind) => !others.has(bindName(bind)));
    const own = { frame: { ...frame, binds }, parts };
    this.#snapshot = own;
    const failures = await Promise.all(
      Array.from(this.#workers, ([number, worker]) => this.#applyTo(number, worker, own)),
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

  /** Asks every worker; without the answer of one that dies meanwhile. In the order of their numbers. */
  async ask<Name extends QueryName>(name: Name, ask: AskOf<Name>): Promise<readonly WorkerAnswer<AnswerOf<Name>>[]> {
    this.#options.log.trace({ question: name, workers: this.#workers.size }, "workers asked");
    const answers = await Promise.all(
      Array.from(this.#workers, async ([worker, thread]) => ({ worker, answer: await thread.query(name, ask) })),
    );
    return answers
      .filter((each): each is WorkerAnswer<AnswerOf<Name>> => each.answer !== gone)
      .sort((a, b) => a.worker - b.worker);
  }

  /** What the workers have counted, those included that have died, as they were last asked. */
  async metrics(): Promise<readonly MetricsSnapshot[]> {
    const answers = await this.ask("metrics", undefined);
    for (const { worker, answer } of answers) this.#totals.heard(worker, answer);
    return [...answers.map(({ answer }) => answer), ...this.#totals.ofEnded];
  }

  /** Has workers that are started from now on log by another filter; those that run are asked to by `setLogFilter`. */
  setLogFilter(filter: string): void {
    this.#logFilter = filter;
  }

  /** The threads that run, by number. */
  get threads(): readonly Worker[] {
    return [...this.#workers].sort(([a], [b]) => a - b).map(([, { thread }]) => thread);
  }

  /** Of the workers that died, running again or not; in the order of their first deaths. */
  get deaths(): readonly WorkerDeaths[] {
    return [...this.#deaths.values()];
  }

  /** Workers that are running. */
  get size(): number {
    return this.#workers.size;
  }

  /** Has every worker ask its clients to leave; all go on serving. */
  leave(): void {
    this.#isLeaving = true;
    for (const worker of this.#workers.values()) worker.leave();
  }

  /** Resolves when every worker has finished what was under way; at `signal` they are stopped instead. */
  async drain(signal: AbortSignal): Promise<void> {
    this.#isDraining = true;
    await Promise.all(Array.from(this.#workers.values(), (worker) => worker.drain(signal)));
  }

  #start(number: number): void {
    const { log, clock, counters, bodies, onRestart, onTraced, onUnopened, waiting } = this.#options;
    const onDeath = (cause: unknown): void => {
      this.#workers.delete(number);
      this.#totals.ended(number);
      counters.releaseLocksOf(number);
      bodies.releaseOf(number);
      if (this.#isDraining) return;
      log.error({ worker: number, err: cause }, "worker died; another takes its place");
      this.#deaths.set(number, {
        worker: number,
        count: (this.#deaths.get(number)?.count ?? 0) + 1,
        lastMs: clock.nowMs(),
        lastCause: cause instanceof Error ? cause.message : "it ended by itself",
      });
      onRestart(number);
      clock.setTimer(restartDelayMs, () => this.#start(number));
    };
    const thread = new WorkerThread(this.#startOf(number), this.#options.heapMib, { onDeath, onTraced });
    this.#workers.set(number, thread);
    log.debug({ worker: number, generation: this.#snapshot?.frame.generation }, "worker started");
    if (this.#isLeaving) thread.leave();
    // Before it serves, so that none of its requests is missed.
    for (const order of waiting()) void thread.query("watch", order);
    if (this.#snapshot === undefined) return;
    void this.#applyTo(number, thread, this.#snapshot).then((failures) => {
      if (failures.length > 0 && !this.#isDraining) onUnopened();
    });
  }

  #startOf(worker: number): WorkerStart {
    const { start, workers } = this.#options;
    return { ...start, worker, addresses: this.#addresses, logFilter: this.#logFilter, reusePort: workers > 1 };
  }
}

/** What one worker has answered. */
export interface WorkerAnswer<Answer> {
  /** Its number, from 1. */
  readonly worker: number;
  readonly answer: Answer;
}

/** In place of the answer of a worker that died. */
const gone = Symbol("the worker is gone");

interface ThreadEvents {
  /** Called once if the thread ends unasked. */
  readonly onDeath: (cause: unknown) => void;
  readonly onTraced: WorkerPoolOptions["onTraced"];
}

/** One thread and the answers that are awaited from it. */
class WorkerThread {
  readonly thread: Worker;
  readonly #awaited = new Map<string, (message: FromWorker) => void>();
  readonly #onTraced: ThreadEvents["onTraced"];
  /** Of the last snapshot that was sent. */
  #parts: ReadonlySet<PartKey> = new Set();
  #sent: Promise<unknown> = Promise.resolve();
  #requests = 0;
  #isGone = false;

  constructor(start: WorkerStart, heapMib: number | undefined, { onDeath, onTraced }: ThreadEvents) {
    this.#onTraced = onTraced;
    this.thread = new Worker(new URL("./worker.ts", import.meta.url), {
      workerData: start,
      name: `worker ${start.worker}`,
      ...(heapMib !== undefined && { resourceLimits: { maxOldGenerationSizeMb: heapMib } }),
    });
    let cause: unknown;
    this.thread.on("message", (message: FromWorker) => this.#receive(message));
    this.thread.on("error", (error: unknown) => {
      cause = error;
    });
    this.thread.on("exit", () => {
      if (this.#isGone) return;
      this.#isGone = true;
      onDeath(cause);
      this.#answerAll();
    });
  }

  async apply(snapshot: PackedSnapshot): Promise<readonly BindFailure[]> {
    // One after the other: what the worker has depends on what was sent before.
    const sent = this.#sent.then(() => this.#send(snapshot));
    this.#sent = sent;
    const message = await (await sent).answer;
    return message.kind === "applied" ? message.failures : [];
  }

  async #send(snapshot: PackedSnapshot): Promise<{ readonly answer: Promise<FromWorker> }> {
    const known = this.#parts;
    this.#parts = new Set(snapshot.parts.keys());
    for (const parts of batchesOf(snapshot, known)) {
      this.#post({ kind: "parts", parts });
      await nextTurn();
    }
    const gone = [...known].filter((key) => !snapshot.parts.has(key));
    const id = this.#requests++;
    return { answer: this.#ask(`applied ${id}`, { kind: "apply", id, frame: snapshot.frame, gone }) };
  }

  async query<Name extends QueryName>(name: Name, ask: AskOf<Name>): Promise<AnswerOf<Name> | typeof gone> {
    const id = this.#requests++;
    // A generic name cannot be told to be one of the union's, of which it is.
    const message = await this.#ask(`answer ${id}`, { kind: "query", id, name, ask } as QueryMessage);
    // The worker answers each query with its own type (QueryAnswers).
    return message.kind === "answer" ? (message.answer as AnswerOf<Name>) : gone;
  }

  leave(): void {
    this.#post({ kind: "leave" });
  }

  async drain(signal: AbortSignal): Promise<void> {
    const stop = (): void => this.#answerAll();
    signal.addEventListener("abort", stop, { once: true });
    await this.#ask("drained", { kind: "drain" });
    this.#isGone = true;
    await this.thread.terminate();
  }

  /** A thread that is gone answers `drained` to everything, so that nobody waits for it. */
  #ask(answer: string, message: ToWorker): Promise<FromWorker> {
    return new Promise((resolve) => {
      this.#awaited.set(answer, resolve);
      this.#post(message);
      if (this.#isGone) this.#answerAll();
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
    const answer = answerOf(message);
    this.#awaited.get(answer)?.(message);
    this.#awaited.delete(answer);
  }

  #answerAll(): void {
    for (const resolve of this.#awaited.values()) resolve({ kind: "drained" });
    this.#awaited.clear();
  }
}

function answerOf(message: Exclude<FromWorker, { kind: "traced" }>): string {
  switch (message.kind) {
    case "applied":
      return `applied ${message.id}`;
    case "answer":
      return `answer ${message.id}`;
    case "drained":
      return "drained";
  }
}
