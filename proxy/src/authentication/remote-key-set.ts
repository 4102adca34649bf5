/**
 * A key set that is read from its URL, beside the requests that need it: at once, again every five minutes, after a
 * failure with growing waits, and when a token names an unknown key. The last valid keys stay in use whatever happens.
 */
import { isDeepStrictEqual } from "node:util";
import { Backoff } from "@gatewayproxy/runtime/backoff";
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import type { PublicJwk } from "../ir/authentication.ts";
import type { KeySetState } from "../ir/key-set-state.ts";
import { readKeySet } from "./json-web-keys.ts";
import { KeyIndex, type KeySet } from "./key-set.ts";

/** How often a key set is read. */
export const refreshMs = 300_000;
/** The shortest time between two reads that tokens with unknown keys cause, since anyone can send such tokens. */
export const minRefreshMs = 10_000;
/** Waits after failures. */
const [firstRetryMs, maxRetryMs] = [1_000, 60_000];

/** The result of one read, for logs and metrics. */
export type FetchOutcome =
  | { readonly kind: "read"; readonly keys: number; readonly leftOut: readonly string[] }
  | { readonly kind: "failed"; readonly error: string };

/** The URL, and what reads it. */
export interface RemoteKeySetOptions {
  readonly uri: string;
  readonly clock: Clock;
  /** From 0 to 1, for jitter. */
  readonly random: () => number;
  /** Resolves with the text of the key set. */
  readonly fetch: (uri: string) => Promise<string>;
  /** Called after each read. */
  readonly onFetched: (uri: string, outcome: FetchOutcome) => void;
}

/** Reads from the constructor until `close`. */
export class RemoteKeySet implements KeySet {
  readonly #options: RemoteKeySetOptions;
  readonly #backoff: Backoff;
  #version = 0;
  #jwks: readonly PublicJwk[] | undefined;
  #keys: KeyIndex | undefined;
  #fetching: Promise<void> | undefined;
  #lastStartMs = 0;
  #readMs: number | undefined;
  #lastError: KeySetState["lastError"];
  #timer: Timer | undefined;
  #isClosed = false;

  constructor(options: RemoteKeySetOptions) {
    this.#options = options;
    const { random } = options;
    this.#backoff = new Backoff({ firstMs: firstRetryMs, maxMs: maxRetryMs, random });
    void this.#start();
  }

  get version(): number {
    return this.#version;
  }

  get keys(): KeyIndex | undefined {
    return this.#keys;
  }

  /** The state for operators. */
  state(): KeySetState {
    return {
      uri: this.#options.uri,
      ...(this.#jwks !== undefined && { keys: this.#jwks.length }),
      ...(this.#readMs !== undefined && { readMs: this.#readMs }),
      ...(this.#lastError !== undefined && { lastError: this.#lastError }),
    };
  }

  refresh(): Promise<void> | undefined {
    if (this.#fetching !== undefined) return this.#fetching;
    const isTooEarly = this.#options.clock.monotonicMs() - this.#lastStartMs < minRefreshMs;
    return isTooEarly || this.#isClosed ? undefined : this.#start();
  }

  close(): void {
    this.#isClosed = true;
    this.#timer?.cancel();
  }

  #start(): Promise<void> {
    this.#timer?.cancel();
    this.#lastStartMs = this.#options.clock.monotonicMs();
    this.#fetching = this.#read().finally(() => {
      this.#fetching = undefined;
    });
    return this.#fetching;
  }

  /** Never rejects. */
  async #read(): Promise<void> {
    const { uri, fetch, onFetched, random, clock } = this.#options;
    const outcome = await fetch(uri).then(
      (text) => this.#accept(text),
      (error: unknown): FetchOutcome => ({ kind: "failed", error: error instanceof Error ? error.message : "failed" }),
    );
    if (this.#isClosed) return;
    if (outcome.kind === "read") {
      this.#backoff.reset();
      this.#readMs = clock.nowMs();
    } else {
      this.#lastError = { message: outcome.error, atMs: clock.nowMs() };
    }
    const waitMs = outcome.kind === "read" ? refreshMs * (1 - random() / 10) : this.#backoff.next();
    this.#timer = clock.setTimer(waitMs, () => void this.#start());
    onFetched(uri, outcome);
  }

  #accept(text: string): FetchOutcome {
    const result = readKeySet(text);
    if (result.kind === "malformed") return { kind: "failed", error: `the key set ${result.error}` };
    const { keys, leftOut } = result;
    if (!isDeepStrictEqual(keys, this.#jwks)) {
      this.#jwks = keys;
      this.#keys = new KeyIndex(keys);
      this.#version += 1;
    }
    return { kind: "read", keys: keys.length, leftOut };
  }
}
