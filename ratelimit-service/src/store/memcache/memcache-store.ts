/**
 * Counters in memcached, with envoyproxy/ratelimit's keys and on the server that its client chooses, so that both share
 * counters. envoyproxy/ratelimit reads a counter, responds and counts afterwards; here a call is counted first and
 * compared with the result, so concurrent calls cannot exceed a limit together.
 *
 * Steps for one counter wait while a command for it is in progress, and are then sent as one command. A busy counter
 * therefore has one command at a time, and the value of each step is computed from the response.
 */
import { createHash } from "node:crypto";
import { crc32 } from "node:zlib";
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import { errorMessage } from "@gatewayproxy/runtime/thrown-value";
import {
  type CounterChange,
  type CounterStep,
  type CounterStore,
  maxCount,
  type StoreCommands,
  StoreError,
} from "../../model/counter-store.ts";
import { RecentKeys } from "../recent-keys.ts";
import type { MemcacheServer } from "./memcache-server.ts";

/** The settings of the store, and the receivers of its errors. */
export interface MemcacheStoreOptions {
  /** Times probes of failed servers, and dates expiries beyond 30 days. */
  readonly clock: Clock;
  /** 0 ≤ x < 1. */
  readonly random: () => number;
  /** Counters outlive their window by up to this many seconds, at random, so that they do not all expire at once. */
  readonly jitterMaxSeconds: number;
  /** Whether a counter that cannot be read counts as absent, as in envoyproxy/ratelimit; otherwise the call fails. */
  readonly failsOpen: boolean;
  /** Called for every error. */
  readonly onError: (error: Error) => void;
  /** Called for every successful response. */
  readonly onReply?: () => void;
}

/** Interval between probes of servers that failed, in ms. */
const probeIntervalMs = 1_000;
/** memcached reads a longer time to live as a date. */
const maxRelativeSeconds = 30 * 86_400;
/** Last date of memcached, which has signed 32-bit numbers for them, in seconds since the epoch. */
const maxDate = 2 ** 31 - 1;
/** Longest key that memcached accepts, in bytes. */
const maxKeyBytes = 250;

/** A process that counts more keys than this in a window reads the expiry of some of them again. */
const maxRecentKeys = 100_000;
/** Clients choose the length of keys; the expiry of a longer one is read with every count. */
const maxRecentKeyLength = 512;

/** A step that waits for its value. */
interface PendingStep {
  readonly step: CounterStep;
  readonly resolve: (value: number) => void;
  readonly reject: (error: Error) => void;
}

/** A store of counters on one or several memcached servers. */
export class MemcacheStore implements CounterStore {
  /** The counts behind `commands`; `multiget` is one per call, whatever its number of counters. */
  readonly counts = {
    keysRequested: 0,
    keysFound: 0,
    multigetSuccess: 0,
    multigetError: 0,
    incrementSuccess: 0,
    incrementMiss: 0,
    incrementError: 0,
    addSuccess: 0,
    addNotStored: 0,
    addError: 0,
  };
  readonly #options: MemcacheStoreOptions;
  #servers: readonly MemcacheServer[];
  /** By key, the steps that wait for the command in progress. */
  readonly #waiting = new Map<string, PendingStep[]>();
  /** Counters whose expiry this process has ensured, with the longest window in seconds. */
  readonly #expiring = new RecentKeys(maxRecentKeys, maxRecentKeyLength);
  readonly #failed = new Set<MemcacheServer>();
  #timer: Timer | undefined;
  #isClosed = false;

  /** @param servers in the order that decides which keys they get */
  constructor(servers: readonly MemcacheServer[], options: MemcacheStoreOptions) {
    this.#servers = servers;
    this.#options = options;
  }

  /** Uses other servers from now on, and closes the previous ones. */
  replaceServers(servers: readonly MemcacheServer[]): void {
    const previous = this.#servers;
    this.#servers = servers;
    this.#failed.clear();
    for (const server of previous) server.close();
    if (this.#isClosed) for (const server of servers) server.close();
  }

  apply(steps: readonly CounterStep[]): readonly number[] | Promise<readonly number[]> {
    if (steps.length === 0) return [];
    this.counts.keysRequested += steps.length;
    const values = Promise.all(steps.map((step) => this.#enqueue(step)));
    return values.then(
      (results) => {
        this.counts.multigetSuccess++;
        return results;
      },
      (error: unknown) => {
        this.counts.multigetError++;
        throw error;
      },
    );
  }

  /** Rejects changes of sliding windows, which no configuration for memcached has. */
  async change(changes: readonly CounterChange[]): Promise<number> {
    const changed = await Promise.all(changes.map((change) => this.#change(change)));
    return changed.filter(Boolean).length;
  }

  isHealthy(): boolean {
    return this.#failed.size === 0 && this.#servers.length > 0;
  }

  commands(): readonly StoreCommands[] {
    const { counts } = this;
    return [
      { name: "keys_requested", count: counts.keysRequested },
      { name: "keys_found", count: counts.keysFound },
      { name: "multiget", code: "success", count: counts.multigetSuccess },
      { name: "multiget", code: "error", count: counts.multigetError },
      { name: "increment", code: "success", count: counts.incrementSuccess },
      { name: "increment", code: "miss", count: counts.incrementMiss },
      { name: "increment", code: "error", count: counts.incrementError },
      { name: "add", code: "success", count: counts.addSuccess },
      { name: "add", code: "not_stored", count: counts.addNotStored },
      { name: "add", code: "error", count: counts.addError },
    ];
  }

  close(): Promise<void> {
    this.#isClosed = true;
    this.#timer?.cancel();
    for (const server of this.#servers) server.close();
    return Promise.resolve();
  }

  async #change(change: CounterChange): Promise<boolean> {
    const { key, count } = change;
    const server = this.#serverOf(key);
    if (server === undefined || change.kind !== "plain") throw new StoreError("memcached: there is no server");
    try {
      if (count === undefined) return await server.delete(nameOf(key));
      await server.set(nameOf(key), String(count), this.#expiryOf(change));
      return true;
    } catch (cause) {
      throw new StoreError(`memcached: ${errorMessage(cause)}`, { cause });
    }
  }

  #enqueue(step: CounterStep): Promise<number> {
    return new Promise((resolve, reject) => {
      const waiting = this.#waiting.get(step.key);
      if (waiting !== undefined) {
        waiting.push({ step, resolve, reject });
        return;
      }
      this.#waiting.set(step.key, [{ step, resolve, reject }]);
      // Steps of the same turn of the event loop are sent together.
      process.nextTick(() => void this.#sendAll(step.key));
    });
  }

  /** Never rejects. */
  async #sendAll(key: string): Promise<void> {
    const waiting = this.#waiting.get(key) ?? [];
    // A response settles every step before the next command is sent.
    while (waiting.length > 0) await this.#sendBatch(key, waiting.splice(0));
    this.#waiting.delete(key);
  }

  async #sendBatch(key: string, batch: readonly PendingStep[]): Promise<void> {
    const { onError, onReply, failsOpen } = this.#options;
    const server = this.#serverOf(key);
    let before: number;
    try {
      if (server === undefined) throw new Error("there is no server");
      before = await this.#countAll(server, key, batch);
      this.#failed.delete(server);
      onReply?.();
    } catch (cause) {
      const storeError = new StoreError(`memcached: ${errorMessage(cause)}`, {
        cause,
      });
      if (server !== undefined) this.#probeUntilHealthy(server);
      if (!this.#isClosed) onError(storeError);
      if (!failsOpen) {
        for (const { reject } of batch) reject(storeError);
        return;
      }
      before = 0;
    }
    const values = valuesAfter(before, batch);
    batch.forEach(({ resolve }, at) => resolve(values[at] ?? 0));
  }

  /**
   * Counts steps in their order, and returns the value of the counter before. All counts are one command, and so are
   * all refunds: if each refund were a command of its own, many of them would delay the calls of others.
   */
  async #countAll(server: MemcacheServer, key: string, batch: readonly PendingStep[]): Promise<number> {
    const added = sumOf(batch, (hits) => Math.max(0, hits));
    const refunded = sumOf(batch, (hits) => Math.max(0, -hits));
    const longest = stepWithLongestWindow(batch);
    if (refunded === 0 || batch.length === 1) return this.#count(server, key, added - refunded, longest);
    const before = await this.#count(server, key, added, longest);
    await this.#count(server, key, -refunded, longest);
    // A refund that found less than it refunds, before a step that counts.
    const stored = Math.max(0, Math.min(maxCount, before + added) - refunded);
    const missing = (valuesAfter(before, batch).at(-1) ?? stored) - stored;
    if (missing > 0) await this.#count(server, key, missing, longest);
    return before;
  }

  /** Counts and returns the value of the counter before. */
  async #count(server: MemcacheServer, key: string, sum: number, step: CounterStep): Promise<number> {
    const { counts } = this;
    const name = nameOf(key);
    if (sum === 0) {
      const text = await server.get(name);
      if (text !== undefined) counts.keysFound++;
      return Math.min(maxCount, Number(text ?? 0) || 0);
    }
    if (sum < 0) {
      const value = await server.decrement(name, Math.min(-sum, maxCount));
      if (value === undefined) return 0;
      counts.keysFound++;
      return value - sum;
    }
    const by = Math.min(sum, maxCount);
    let value = await this.#increment(server, name, by);
    if (value === undefined) {
      if (await this.#add(server, name, by, this.#expiryOf(step))) {
        this.#expiring.set(key, keptSeconds(step));
        return 0;
      }
      // Another process created the counter first.
      value = (await this.#increment(server, name, by)) ?? by;
    }
    counts.keysFound++;
    if ((this.#expiring.get(key) ?? 0) < keptSeconds(step)) this.#extendExpiry(server, key, step);
    if (value > maxCount) await server.set(name, String(maxCount), this.#expiryOf(step));
    return value - by;
  }

  /** Extends the expiry of a counter to the end of its window, where a limit of a shorter unit set an earlier one. */
  #extendExpiry(server: MemcacheServer, key: string, step: CounterStep): void {
    const name = nameOf(key);
    this.#expiring.set(key, keptSeconds(step));
    server
      .secondsToExpiry(name)
      .then((left) => (left < keptSeconds(step) ? server.touch(name, this.#expiryOf(step)) : undefined))
      .catch((error: unknown) => {
        this.#expiring.delete(key);
        const storeError = new StoreError(`memcached: ${errorMessage(error)}`);
        if (!this.#isClosed) this.#options.onError(storeError);
      });
  }

  async #increment(server: MemcacheServer, name: string, by: number): Promise<number | undefined> {
    try {
      const value = await server.increment(name, by);
      if (value === undefined) this.counts.incrementMiss++;
      else this.counts.incrementSuccess++;
      return value;
    } catch (error) {
      this.counts.incrementError++;
      throw error;
    }
  }

  async #add(server: MemcacheServer, name: string, value: number, expires: number): Promise<boolean> {
    try {
      const isStored = await server.add(name, String(value), expires);
      if (isStored) this.counts.addSuccess++;
      else this.counts.addNotStored++;
      return isStored;
    } catch (error) {
      this.counts.addError++;
      throw error;
    }
  }

  /**
   * Returns seconds, or a date where memcached would read that many seconds as one; 0, which is never, after the last
   * date of memcached.
   */
  #expiryOf(step: Pick<CounterStep, "windowSeconds" | "keepSeconds">): number {
    const { random, jitterMaxSeconds, clock } = this.#options;
    const seconds = keptSeconds(step) + Math.floor(random() * jitterMaxSeconds);
    if (seconds <= maxRelativeSeconds) return seconds;
    const date = Math.floor(clock.nowMs() / 1_000) + seconds;
    return date <= maxDate ? date : 0;
  }

  /** Selects the server as envoyproxy/ratelimit's client does: the check sum modulo the number of servers. */
  #serverOf(key: string): MemcacheServer | undefined {
    const { length } = this.#servers;
    return this.#servers[length < 2 ? 0 : crc32(nameOf(key)) % length];
  }

  /** Probes a server that failed until it responds, so that it becomes healthy without calls. */
  #probeUntilHealthy(server: MemcacheServer): void {
    if (this.#servers.includes(server)) this.#failed.add(server);
    if (this.#timer !== undefined || this.#isClosed) return;
    this.#timer = this.#options.clock.setTimer(probeIntervalMs, () => void this.#probe());
  }

  /** Never rejects. */
  async #probe(): Promise<void> {
    await Promise.all(
      Array.from(this.#failed, (server) =>
        server.probe().then(
          () => {
            this.#failed.delete(server);
            this.#options.onReply?.();
          },
          () => undefined,
        ),
      ),
    );
    this.#timer = undefined;
    const [failed] = this.#failed;
    if (failed !== undefined) this.#probeUntilHealthy(failed);
  }
}

function sumOf(batch: readonly PendingStep[], read: (hits: number) => number): number {
  return batch.reduce((total, { step }) => total + read(step.hits), 0);
}

/** Returns the value of the counter after each step. */
function valuesAfter(before: number, batch: readonly PendingStep[]): readonly number[] {
  let value = before;
  return batch.map(({ step }) => (value = Math.min(maxCount, Math.max(0, value + step.hits))));
}

function stepWithLongestWindow(batch: readonly PendingStep[]): CounterStep {
  return batch
    .map(({ step }) => step)
    .reduce((longest, step) => (keptSeconds(step) > keptSeconds(longest) ? step : longest));
}

/** Returns the seconds for which a step keeps its counter. */
function keptSeconds({ windowSeconds, keepSeconds }: Pick<CounterStep, "windowSeconds" | "keepSeconds">): number {
  return keepSeconds ?? windowSeconds;
}

/**
 * Returns the name of a key in memcached. A key that is too long or contains white space is replaced by its hash.
 * envoyproxy/ratelimit sends such a key, memcached rejects it, and nothing is counted.
 */
function nameOf(key: string): string {
  const isAccepted = /^[!-~\u0080-\uffff]+$/.test(key) && key.isWellFormed() && Buffer.byteLength(key) <= maxKeyBytes;
  return isAccepted ? key : `sha256_${createHash("sha256").update(Buffer.from(key, "utf16le")).digest("hex")}`;
}
