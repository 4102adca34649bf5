/**
 * Start and shutdown of a process. It is ready when every named condition is met. At the first signal it shuts down in
 * steps, within a deadline; at the second it exits at once.
 */
import type { Clock } from "../timing/clock.ts";

/** Whether the process may receive traffic, and which conditions are pending. Serves the readiness probe. */
export class Readiness {
  readonly #pending: Set<string>;
  #withdrawn: string | undefined;

  /** Starts as not ready; becomes ready when all `conditions` are met. */
  constructor(conditions: Iterable<string>) {
    this.#pending = new Set(conditions);
  }

  /** Marks a condition as met. It stays met. */
  meet(condition: string): void {
    this.#pending.delete(condition);
  }

  /** Makes the process not ready for good: the first step of a shutdown. `reason` such as `shutting down`. */
  withdraw(reason: string): void {
    this.#withdrawn ??= reason;
  }

  get isReady(): boolean {
    return this.#withdrawn === undefined && this.#pending.size === 0;
  }

  /** Returns `ready`, or what is missing: `not ready: pending configuration, workers`. */
  describe(): string {
    if (this.isReady) return "ready";
    return `not ready: ${this.#withdrawn ?? `pending ${[...this.#pending].join(", ")}`}`;
  }
}

/** One step of the shutdown. */
export interface ShutdownStep {
  /** The name for the log: `drain connections`. */
  readonly name: string;
  /** Returns when done. `signal` aborts at the deadline: the step then drops what is left and returns. */
  readonly run: (signal: AbortSignal) => void | Promise<void>;
}

/** The result of a shutdown. */
export type ShutdownOutcome =
  | { readonly kind: "completed" }
  /** `steps` were still running at the deadline. */
  | { readonly kind: "deadlineExceeded"; readonly steps: readonly string[] };

/** Options of `shutDown`. */
export interface ShutdownOptions {
  /** The steps, which run one after the other. */
  readonly steps: readonly ShutdownStep[];
  /** The deadline of all steps together, in milliseconds. */
  readonly deadlineMs: number;
  /** Times the deadline and each step. */
  readonly clock: Clock;
  /** Called when a step throws. The following steps still run. */
  readonly onError: (step: string, error: unknown) => void;
  /** Called at the end of each step. */
  readonly onStep?: (step: string, durationMs: number) => void;
}

/** The time that a step has after the deadline before the next one starts, in milliseconds. */
const stepGraceMs = 1_000;

/** Runs the steps one after the other. Never rejects. Steps after the deadline still run, with their signal aborted. */
export async function shutDown({
  steps,
  deadlineMs,
  clock,
  onError,
  onStep,
}: ShutdownOptions): Promise<ShutdownOutcome> {
  const deadline = new AbortController();
  const timer = clock.setTimer(deadlineMs, () => deadline.abort());
  const late: string[] = [];
  for (const { name, run } of steps) {
    const startMs = clock.monotonicMs();
    const done = (async () => run(deadline.signal))().catch((error: unknown) => onError(name, error));
    await Promise.race([done, stepGrace(deadline.signal, clock)]);
    onStep?.(name, Math.round(clock.monotonicMs() - startMs));
    if (deadline.signal.aborted) late.push(name);
  }
  timer.cancel();
  return late.length === 0 ? { kind: "completed" } : { kind: "deadlineExceeded", steps: late };
}

function stepGrace(deadline: AbortSignal, clock: Clock): Promise<void> {
  return new Promise((resolve) => {
    const startTimer = () => void clock.setTimer(stepGraceMs, resolve);
    if (deadline.aborted) startTimer();
    else deadline.addEventListener("abort", startTimer, { once: true });
  });
}

/** The source of signals: `process`, or an event emitter in tests. */
export interface SignalSource {
  on(signal: NodeJS.Signals, listener: () => void): unknown;
  off(signal: NodeJS.Signals, listener: () => void): unknown;
}

/** The reactions to signals. */
export interface SignalHandlers {
  /** At the first signal. */
  readonly shutDown: (signal: NodeJS.Signals) => void;
  /** At each later signal: exit now. */
  readonly force: (signal: NodeJS.Signals) => void;
}

/** Adds listeners for `signals`. Returns a function that removes them. */
export function handleSignals(
  source: SignalSource,
  handlers: SignalHandlers,
  signals: readonly NodeJS.Signals[] = ["SIGTERM", "SIGINT"],
): () => void {
  let isShuttingDown = false;
  const listeners = signals.map((signal) => {
    const listener = () => {
      const handle = isShuttingDown ? handlers.force : handlers.shutDown;
      isShuttingDown = true;
      handle(signal);
    };
    source.on(signal, listener);
    return { signal, listener };
  });
  return () => {
    for (const { signal, listener } of listeners) source.off(signal, listener);
  };
}

/**
 * Keeps the process alive after an unhandled promise rejection: one operation has failed, and the others continue. An
 * exception outside of a promise still ends the process.
 */
export function surviveRejections(source: Pick<NodeJS.Process, "on">, onRejection: (error: unknown) => void): void {
  source.on("unhandledRejection", onRejection);
}
