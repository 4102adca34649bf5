/**
 * Lists namespaces again beside a watch. The watch continues meanwhile: tens of thousands of objects of one namespace
 * take long to list, and the events of others must not wait for them.
 */
import { Backoff } from "@gatewayproxy/runtime/backoff";
import type { Clock } from "@gatewayproxy/runtime/clock";
import { pause } from "@gatewayproxy/runtime/pause";

/** Options of `ListsBeside`. */
export interface ListsBesideOptions {
  /** The clock of the delays after failures. */
  readonly clock: Clock;
  /** From 0 to 1, for jitter. */
  readonly random: () => number;
  /** Lists a namespace until the signal aborts. */
  readonly list: (namespace: string, signal: AbortSignal) => Promise<void>;
  /** Called for a list that fails, before it is repeated after `waitMs`. */
  readonly onFailure: (error: unknown, waitMs: number) => void;
}

/** The lists beside one watch, one after the other. One that fails is repeated. */
export class ListsBeside {
  readonly #options: ListsBesideOptions;
  readonly #backoff: Backoff;
  readonly #toBeListed = new Set<string>();
  /** Whether there is a watch, or the time between two. */
  #mayList = false;
  #isRunning = false;
  /** Ends the current list. */
  #ended = new AbortController();
  /** The objects with an event since the current list began. What it has of them may be older. */
  readonly #changed = new Set<string>();

  constructor(options: ListsBesideOptions) {
    this.#options = options;
    this.#backoff = new Backoff({ random: options.random });
  }

  /** Adds namespaces to be listed. */
  add(namespaces: readonly string[]): void {
    for (const namespace of namespaces) this.#toBeListed.add(namespace);
    void this.#run();
  }

  /** All objects were listed, and the watch begins. */
  begin(): void {
    this.#mayList = true;
    void this.#run();
  }

  /** All objects are listed, these as well, or none any more. */
  end(): void {
    this.#mayList = false;
    this.#toBeListed.clear();
    this.#ended.abort();
  }

  /** An event has changed or removed an object. */
  changed(key: string): void {
    if (this.#isRunning) this.#changed.add(key);
  }

  /** Whether an event has changed or removed an object since the current list began. */
  hasChanged(key: string): boolean {
    return this.#changed.has(key);
  }

  async #run(): Promise<void> {
    if (this.#isRunning) return;
    this.#isRunning = true;
    for (let next = this.#next(); next !== undefined; next = this.#next()) {
      this.#ended = new AbortController();
      await this.#list(next, this.#ended.signal);
      this.#changed.clear();
    }
    this.#isRunning = false;
  }

  #next(): string | undefined {
    const [next] = this.#mayList ? this.#toBeListed : [];
    return next;
  }

  async #list(namespace: string, signal: AbortSignal): Promise<void> {
    const { clock, list, onFailure } = this.#options;
    this.#toBeListed.delete(namespace);
    try {
      await list(namespace, signal);
      this.#backoff.reset();
    } catch (error) {
      if (signal.aborted) return;
      this.#toBeListed.add(namespace);
      const waitMs = this.#backoff.next();
      onFailure(error, waitMs);
      await pause(clock, waitMs, signal);
    }
  }
}
