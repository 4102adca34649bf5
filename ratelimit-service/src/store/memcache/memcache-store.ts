/**
 * Counters in memcached, under the reference's keys and on the server that its client chooses, so that both count
 * together. Unlike the reference, which reads a counter, answers and counts afterwards, a call is counted first and
 * compared with what memcached answers: calls that come together do not pass a limit together.
 *
 * What comes for one counter while a command for it is under way waits and goes out as one command, so each step's value
 * follows from the answer, and a counter of many calls costs one command at a time.
 */
import { createHash } from "node:crypto";
import { crc32 } from "node:zlib";
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import { type CounterStep, type CounterStore, maxCount, type StoreCommands, StoreError } from "../counter-store.ts";
import { RecentKeys } from "../recent-keys.ts";
import type { MemcacheServer } from "./memcache-server.ts";

export interface MemcacheStoreOptions {
  readonly clock: Clock;
  /** 0 ≤ x < 1. */
  readonly random: () => number;
  /** Counters outlive their window by up to so many seconds, so that they do not all end at once. */
  readonly jitterMaxSeconds: number;
  /** A counter that cannot be asked is taken for one that does not exist, as the reference does; else the call fails. */
  readonly passesWhileAway: boolean;
  /** Told of every fault. */
  readonly onError: (error: Error) => void;
  /** Told of every answer that is no fault. */
  readonly onAnswer?: () => void;
}

/** Between two probes of servers that failed, in ms. */
const probeIntervalMs = 1_000;
/** A longer time to live is read as a date by memcached. */
const maxRelativeSeconds = 30 * 86_400;
/** Longest key, in bytes, that memcached takes. */
const maxKeyBytes = 250;

/** A process that counts more keys than this in a window asks some of them for their end again. */
const rememberedKeys = 100_000;
/** Clients choose how long a key is; a longer one is asked with every count. */
const maxRememberedLength = 512;

/** A step that waits for its value. */
interface WaitingStep {
  readonly step: CounterStep;
  readonly resolve: (value: number) => void;
  readonly reject: (error: Error) => void;
}

export class MemcacheStore implements CounterStore {
  /** As `commands` names them; `multiget` is a call, of however many counters. */
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
  /** By key, the steps that wait for the command that is under way. */
  readonly #waiting = new Map<string, WaitingStep[]>();
  /** Counters with an end, by the longest window in seconds for which this process saw to it. */
  readonly #expiring = new RecentKeys(rememberedKeys, maxRememberedLength);
  readonly #failed = new Set<MemcacheServer>();
  #timer: Timer | undefined;
  #isClosed = false;

  /** @param servers in the order in which keys are dealt to them */
  constructor(servers: readonly MemcacheServer[], options: MemcacheStoreOptions) {
    this.#servers = servers;
    this.#options = options;
  }

  /** Other servers from now on; the former are closed. */
  replaceServers(servers: readonly MemcacheServer[]): void {
    const former = this.#servers;
    this.#servers = servers;
    this.#failed.clear();
    for (const server of former) server.close();
    if (this.#isClosed) for (const server of servers) server.close();
  }

  apply(steps: readonly CounterStep[]): readonly number[] | Promise<readonly number[]> {
    if (steps.length === 0) return [];
    this.counts.keysRequested += steps.length;
    const values = Promise.all(steps.map((step) => this.#enqueue(step)));
    return values.then(
      (counted) => {
        this.counts.multigetSuccess++;
        return counted;
      },
      (error: unknown) => {
        this.counts.multigetError++;
        throw error;
      },
    );
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

  #enqueue(step: CounterStep): Promise<number> {
    return new Promise((resolve, reject) => {
      const waiting = this.#waiting.get(step.key);
      if (waiting !== undefined) {
        waiting.push({ step, resolve, reject });
        return;
      }
      this.#waiting.set(step.key, [{ step, resolve, reject }]);
      // What the same turn brings goes along.
      process.nextTick(() => void this.#drain(step.key));
    });
  }

  /** Never rejects. */
  async #drain(key: string): Promise<void> {
    const waiting = this.#waiting.get(key) ?? [];
    while (waiting.length > 0) {
      const lot = waiting.splice(0, lengthOfLot(waiting));
      // A lot in order: an answer settles every step before the next command goes out.
      await this.#take(key, lot);
    }
    this.#waiting.delete(key);
  }

  async #take(key: string, lot: readonly WaitingStep[]): Promise<void> {
    const { onError, onAnswer, passesWhileAway } = this.#options;
    const sum = lot.reduce((total, { step }) => total + step.hits, 0);
    const server = this.#serverOf(key);
    let before: number;
    try {
      if (server === undefined) throw new Error("there is no server");
      before = await this.#count(server, key, sum, longestWindow(lot));
      this.#failed.delete(server);
      onAnswer?.();
    } catch (cause) {
      const fault = new StoreError(`memcached: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
      if (server !== undefined) this.#watch(server);
      if (!this.#isClosed) onError(fault);
      if (!passesWhileAway) {
        for (const { reject } of lot) reject(fault);
        return;
      }
      before = 0;
    }
    let value = before;
    for (const { step, resolve } of lot) {
      value = Math.min(maxCount, Math.max(0, value + step.hits));
      resolve(value);
    }
  }

  /** Counts and answers what the counter was before. */
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
        this.#expiring.set(key, step.windowSeconds);
        return 0;
      }
      // Another process was first.
      value = (await this.#increment(server, name, by)) ?? by;
    }
    counts.keysFound++;
    if ((this.#expiring.get(key) ?? 0) < step.windowSeconds) this.#prolong(server, key, step);
    if (value > maxCount) await server.set(name, String(maxCount), this.#expiryOf(step));
    return value - by;
  }

  /** Gives a counter the end of its window where it has an earlier one, by a limit of a shorter unit. */
  #prolong(server: MemcacheServer, key: string, step: CounterStep): void {
    const name = nameOf(key);
    this.#expiring.set(key, step.windowSeconds);
    server
      .secondsLeft(name)
      .then((left) => (left < step.windowSeconds ? server.touch(name, this.#expiryOf(step)) : undefined))
      .catch((error: unknown) => {
        this.#expiring.delete(key);
        const fault = new StoreError(`memcached: ${error instanceof Error ? error.message : String(error)}`);
        if (!this.#isClosed) this.#options.onError(fault);
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

  /** Seconds, or a date where those would be more than memcached reads as such. */
  #expiryOf({ windowSeconds }: CounterStep): number {
    const { random, jitterMaxSeconds, clock } = this.#options;
    const seconds = windowSeconds + Math.floor(random() * jitterMaxSeconds);
    return seconds <= maxRelativeSeconds ? seconds : Math.floor(clock.nowMs() / 1_000) + seconds;
  }

  /** As the reference's client deals keys: the check sum modulo the number of servers. */
  #serverOf(key: string): MemcacheServer | undefined {
    const { length } = this.#servers;
    return this.#servers[length < 2 ? 0 : crc32(nameOf(key)) % length];
  }

  /** Asks a server that failed until it answers, so that health comes back without calls. */
  #watch(server: MemcacheServer): void {
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
            this.#options.onAnswer?.();
          },
          () => undefined,
        ),
      ),
    );
    this.#timer = undefined;
    const [failed] = this.#failed;
    if (failed !== undefined) this.#watch(failed);
  }
}

/** Steps that are one command: as many as give nothing back, or one that does. */
function lengthOfLot(waiting: readonly WaitingStep[]): number {
  const at = waiting.findIndex(({ step }) => step.hits < 0);
  return at === -1 ? waiting.length : Math.max(1, at);
}

function longestWindow(lot: readonly WaitingStep[]): CounterStep {
  return lot
    .map(({ step }) => step)
    .reduce((longest, step) => (step.windowSeconds > longest.windowSeconds ? step : longest));
}

/**
 * The key as memcached takes it. One that is too long, or has white space, stands under its hash: the reference asks
 * memcached in vain for such a key, and counts nothing.
 */
function nameOf(key: string): string {
  const isTaken = /^[!-~\u0080-\uffff]+$/.test(key) && key.isWellFormed() && Buffer.byteLength(key) <= maxKeyBytes;
  return isTaken ? key : `sha256_${createHash("sha256").update(Buffer.from(key, "utf16le")).digest("hex")}`;
}
