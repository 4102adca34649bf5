/**
 * The beginning and the end of a process: ready once everything that was named is there, and down again in order,
 * within a deadline, at the first signal; at once at the second.
 */
import type { Clock } from "./clock.ts";

/** Whether the process may be sent traffic, and if not, what is missing. Answers a readiness probe. */
export class Readiness {
  readonly #pending: Set<string>;
  #withdrawn: string | undefined;

  /** Ready when every one of `conditions` has been met. */
  constructor(conditions: Iterable<string>) {
    this.#pending = new Set(conditions);
  }

  /** Once met, a condition stays met. */
  meet(condition: string): void {
    this.#pending.delete(condition);
  }

  /** Not ready any more, for good: the first step of going down. `reason` such as `shutting down`. */
  withdraw(reason: string): void {
    this.#withdrawn ??= reason;
  }

  get isReady(): boolean {
    return this.#withdrawn === undefined && this.#pending.size === 0;
  }

  /** `ready`, or what stands in the way: `not ready: pending configuration, workers`. */
  describe(): string {
    if (this.isReady) return "ready";
    return `not ready: ${this.#withdrawn ?? `pending ${[...this.#pending].join(", ")}`}`;
  }
}

/** One thing to do on the way down. */
export interface ShutdownStep {
  /** For the log: `drain connections`. */
  readonly name: string;
  /** Returns when done. When `signal` aborts the deadline has passed: drop what is left and return. */
  readonly run: (signal: AbortSignal) => void | Promise<void>;
}

export type ShutdownOutcome =
  | { readonly kind: "completed" }
  /** `steps` were cut short or did not end by themselves. */
  | { readonly kind: "deadlineExceeded"; readonly steps: readonly string[] };

export interface ShutdownOptions {
  readonly steps: readonly ShutdownStep[];
  /** For all steps together. */
  readonly deadlineMs: number;
  readonly clock: Clock;
  /** Told of a step that throws; the steps after it run all the same. */
  readonly onError: (step: string, error: unknown) => void;
  /** Told of the end of each step. */
  readonly onStep?: (step: string, durationMs: number) => void;
}

/** A step that goes on after the deadline although it was told to drop everything is left alone after this long. */
const DROP_MS = 1_000;

/** Runs the steps one after the other. Never rejects; steps after the deadline still run, to drop what they hold. */
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
    await Promise.race([done, droppedBy(deadline.signal, clock)]);
    onStep?.(name, Math.round(clock.monotonicMs() - startMs));
    if (deadline.signal.aborted) late.push(name);
  }
  timer.cancel();
  return late.length === 0 ? { kind: "completed" } : { kind: "deadlineExceeded", steps: late };
}

function droppedBy(deadline: AbortSignal, clock: Clock): Promise<void> {
  return new Promise((resolve) => {
    const startTimer = () => void clock.setTimer(DROP_MS, resolve);
    if (deadline.aborted) startTimer();
    else deadline.addEventListener("abort", startTimer, { once: true });
  });
}

/** `process`, or what a test puts in its place. */
export interface SignalSource {
  on(signal: NodeJS.Signals, listener: () => void): unknown;
  off(signal: NodeJS.Signals, listener: () => void): unknown;
}

export interface SignalHandlers {
  /** At the first signal. */
  readonly shutDown: (signal: NodeJS.Signals) => void;
  /** At the second one, for somebody who will not wait: exit now. */
  readonly force: (signal: NodeJS.Signals) => void;
}

/** Listens to `signals`; returns a function that takes the listeners away again. */
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
 * Keeps a process alive whose promise nobody awaited: what it was about has failed, and is told, but the others go on. An
 * exception outside of any promise still ends the process.
 */
export function surviveRejections(source: Pick<NodeJS.Process, "on">, tell: (error: unknown) => void): void {
  source.on("unhandledRejection", tell);
}
