/**
 * The health and quota of LLM providers, in memory that all workers share: a provider that is out of
 * quota is left alone by all of them.
 *
 *     lock | buckets of 8 rows of 128 bytes
 *
 * A row is found by the identity of its provider alone. Providers without a failure have none. Writers hold the lock.
 * Readers do not, since a number that another worker changes at the same time affects one choice only. Where a bucket
 * is full, the namespace with the most rows in it loses its oldest, so that the failing providers of one tenant replace
 * no state of another.
 *
 * A 429 is what a provider says to one client: its budget may be that of this client, or the request may be too large.
 * So the 429 of one client parks the provider for others only until one of them has tried it: one request of another
 * client is let through as a probe. If it succeeds, the provider is available again, and the first client does not park
 * it a second time in this window. If it gets a 429, too, further probes wait ten seconds, then twice as long each
 * time. The failures of one client may be those of its requests, and do not park it a second time in a minute.
 */
import { hash } from "node:crypto";
import { BucketLocks } from "@gatewayproxy/runtime/bucket-locks";
import { hashOfText } from "@gatewayproxy/runtime/text-hash";
import type { ProviderFigures } from "../ir/endpoint-state.ts";
import { backendsByKey } from "../ir/backends-by-key.ts";
import type { Backend, BackendKey } from "../ir/snapshot.ts";
import { deservesEjection, ejectionMs } from "./ejection.ts";

/** The state of a provider for one client. */
export type ProviderCondition = "available" | "outOfQuota" | "failing";

const bucketCount = 128;
const ways = 8;
const rowNumbers = 16;
/** The lock is alone in its cache line. */
const headerBytes = 64;

/** Positions in a row. Times are monotonic milliseconds; 0 is none. */
const at = {
  identity: 0,
  /** The last change. */
  changedMs: 1,
  outOfQuotaUntilMs: 2,
  failingUntilMs: 3,
  /** The beginning of the latest of both. */
  parkedMs: 4,
  /** The client of the failures since the last success; `several` for more than one. */
  client: 5,
  /** No probe is let through before. */
  probeMs: 6,
  /** The number of clients in a row that have got a 429 since the last success. */
  confirmations: 7,
  /** The number of 429 without a reset since the last success. */
  withoutReset: 8,
  failures: 9,
  ejections: 10,
  /** A client whose 429, or failures, were its own: another one succeeded. */
  blamedClient: 11,
  blamedUntilMs: 12,
  /** The namespace of the provider. */
  owner: 13,
} as const;

const several = -1;
/** A provider that has not said when its quota is reset. It doubles each time. */
const firstQuotaMs = 10_000;
/** The longest time that the 429 of one client parks a provider. */
const maxUnconfirmedMs = 60_000;
/** The longest time that a provider is parked; then one request finds out whether it still is out of quota. */
const maxQuotaMs = 600_000;
/** The time in which the failures of a client that were its own do not park the provider again. */
const blameMs = 60_000;
/** The time in which a probe should have a response; then another one may be sent. */
const probeMs = 10_000;

/** Creates the memory for the states of a process (128 KiB). */
export function createProviderMemory(): SharedArrayBuffer {
  return new SharedArrayBuffer(headerBytes + bucketCount * ways * rowNumbers * Float64Array.BYTES_PER_ELEMENT);
}

/** The view of one thread on the states. */
export class ProviderStates {
  readonly #numbers: Float64Array;
  readonly #lock: BucketLocks;

  /** @param memory of `createProviderMemory`. @param owner as for `BucketLocks`. */
  constructor(memory: SharedArrayBuffer, owner: number) {
    this.#lock = new BucketLocks(new Int32Array(memory, 0, 1), owner);
    this.#numbers = new Float64Array(memory, headerBytes);
  }

  /**
   * Returns the state of a provider.
   *
   * @param identity the same text in every worker; it is kept as a hash.
   * @param namespace that of its Backend.
   */
  of(identity: string, namespace: string): ProviderState {
    return new ProviderState(this.#numbers, this.#lock, numberOf(identity), numberOf(namespace));
  }

  /** Returns the states of the providers of all lists, by the keys of their Backends. */
  figures(backends: readonly Backend[], nowMs: number): ReadonlyMap<BackendKey, ProviderFigures> {
    const figures = new Map<BackendKey, ProviderFigures>();
    for (const { failover } of backends) {
      for (const { backend: key } of failover?.providers ?? []) {
        const backend = backendsByKey(backends).get(key);
        if (backend === undefined) continue;
        figures.set(key, this.of(providerIdentity(backend), backend.namespace).report(nowMs));
      }
    }
    return figures;
  }

  /** Releases the lock if a worker has died with it. */
  releaseLocksOf(owner: number): void {
    this.#lock.releaseAll(owner);
  }
}

/** The state of one provider. Clients are numbers of `clientNumber`. */
export class ProviderState {
  readonly #numbers: Float64Array;
  readonly #lock: BucketLocks;
  readonly #identity: number;
  readonly #owner: number;
  readonly #bucket: number;

  constructor(numbers: Float64Array, lock: BucketLocks, identity: number, owner: number) {
    this.#numbers = numbers;
    this.#lock = lock;
    this.#identity = identity;
    this.#owner = owner;
    this.#bucket = (identity % bucketCount) * ways * rowNumbers;
  }

  /** Whether a request of a client may be sent. A probe is available. */
  condition(client: number, nowMs: number): ProviderCondition {
    const row = this.#find();
    if (row === undefined) return "available";
    const isOut = this.#get(row, at.outOfQuotaUntilMs) > nowMs;
    if (!isOut && this.#get(row, at.failingUntilMs) <= nowMs) return "available";
    if (this.#mayProbe(row, client, nowMs)) return "available";
    return isOut ? "outOfQuota" : "failing";
  }

  /** A request of a client is sent. If it is a probe, others wait for its result. */
  onSend(client: number, nowMs: number): void {
    const row = this.#find();
    if (row === undefined || !this.#isParked(row, nowMs)) return;
    this.#change(nowMs, (own) => {
      if (this.#mayProbe(own, client, nowMs)) this.#set(own, at.probeMs, nowMs + probeMs);
    });
  }

  /**
   * The provider has responded to a client that it is out of quota.
   *
   * @param resetMs the time until its reset; undefined if it has not said one.
   */
  onOutOfQuota(client: number, resetMs: number | undefined, nowMs: number): void {
    this.#change(nowMs, (row) => {
      if (this.#isBlamed(row, client, nowMs)) return;
      const known = this.#get(row, at.client);
      const isOther = known !== 0 && known !== client;
      const confirmations = this.#get(row, at.confirmations) + (isOther ? 1 : 0);
      const repeats = this.#get(row, at.withoutReset);
      if (resetMs === undefined) this.#set(row, at.withoutReset, repeats + 1);
      const statedMs = resetMs ?? firstQuotaMs * 2 ** repeats;
      const forMs = Math.min(statedMs, confirmations > 0 ? maxQuotaMs : maxUnconfirmedMs);
      this.#set(row, at.outOfQuotaUntilMs, Math.max(this.#get(row, at.outOfQuotaUntilMs), nowMs + forMs));
      this.#set(row, at.parkedMs, nowMs);
      this.#set(row, at.client, client);
      this.#set(row, at.confirmations, confirmations);
      this.#set(row, at.probeMs, confirmations === 0 ? 0 : nowMs + probeMs * 2 ** (confirmations - 1));
    });
  }

  /** An attempt of a client has failed, or got a status of 500 or more. @param random 0 ≤ random < 1 */
  onFailure(client: number, nowMs: number, random: number): void {
    this.#change(nowMs, (row) => {
      if (this.#isBlamed(row, client, nowMs)) return;
      const failures = this.#get(row, at.failures) + 1;
      const known = this.#get(row, at.client);
      this.#set(row, at.failures, failures);
      this.#set(row, at.client, known === 0 || known === client ? client : several);
      if (!deservesEjection(failures) || this.#get(row, at.failingUntilMs) > nowMs) return;
      const ejections = this.#get(row, at.ejections);
      this.#set(row, at.failingUntilMs, nowMs + ejectionMs(ejections, random));
      this.#set(row, at.ejections, ejections + 1);
      this.#set(row, at.parkedMs, nowMs);
      this.#set(row, at.probeMs, 0);
    });
  }

  /** A request of a client has got a response. @param sentMs the start of its attempt. */
  onSuccess(client: number, sentMs: number, nowMs: number): void {
    const row = this.#find();
    // A response to a request that was sent before says nothing of the time since.
    if (row === undefined || sentMs < this.#get(row, at.parkedMs)) return;
    if (this.#get(row, at.client) === 0) return;
    this.#change(nowMs, (own) => {
      const first = this.#get(own, at.client);
      if (this.#isParked(own, nowMs) && first !== client && first !== several) {
        this.#set(own, at.blamedClient, first);
        const blamedMs = this.#get(own, at.failingUntilMs) > nowMs ? nowMs + blameMs : 0;
        this.#set(own, at.blamedUntilMs, Math.max(this.#get(own, at.outOfQuotaUntilMs), blamedMs));
      }
      for (const place of clearedBySuccess) this.#set(own, place, 0);
    });
  }

  /** Returns the state for operators. */
  report(nowMs: number): ProviderFigures {
    const row = this.#find();
    if (row === undefined) return { outOfQuotaForMs: 0, failingForMs: 0, consecutiveFailures: 0 };
    return {
      outOfQuotaForMs: Math.max(0, this.#get(row, at.outOfQuotaUntilMs) - nowMs),
      failingForMs: Math.max(0, this.#get(row, at.failingUntilMs) - nowMs),
      consecutiveFailures: this.#get(row, at.failures),
    };
  }

  /** Time until the reset, in milliseconds, at least 0. */
  outOfQuotaForMs(nowMs: number): number {
    return this.report(nowMs).outOfQuotaForMs;
  }

  #isBlamed(row: number, client: number, nowMs: number): boolean {
    return this.#get(row, at.blamedUntilMs) > nowMs && this.#get(row, at.blamedClient) === client;
  }

  #isParked(row: number, nowMs: number): boolean {
    return this.#get(row, at.outOfQuotaUntilMs) > nowMs || this.#get(row, at.failingUntilMs) > nowMs;
  }

  #mayProbe(row: number, client: number, nowMs: number): boolean {
    const known = this.#get(row, at.client);
    return known !== several && known !== client && this.#get(row, at.probeMs) <= nowMs;
  }

  /** Changes the row under the lock. */
  #change(nowMs: number, change: (row: number) => void): void {
    this.#lock.lock(0);
    try {
      const row = this.#find() ?? this.#take();
      this.#set(row, at.changedMs, nowMs);
      change(row);
    } finally {
      this.#lock.unlock(0);
    }
  }

  #find(): number | undefined {
    for (let way = 0; way < ways; way++) {
      const row = this.#bucket + way * rowNumbers;
      if (this.#get(row, at.identity) === this.#identity) return row;
    }
    return undefined;
  }

  /**
   * Takes an empty row of the bucket, or the one that was changed the longest time ago of those whose owner has the
   * most rows there, with this one.
   */
  #take(): number {
    const rows = Array.from({ length: ways }, (_, way) => this.#bucket + way * rowNumbers);
    const isEmpty = (row: number): boolean => this.#get(row, at.identity) === 0;
    const share = (row: number): number => {
      const owner = this.#get(row, at.owner);
      const others = rows.filter((each) => this.#get(each, at.owner) === owner).length;
      return owner === this.#owner ? others + 1 : others;
    };
    const taken =
      rows.find(isEmpty) ??
      rows.reduce((first, row) => {
        const more = share(row) - share(first);
        const isOlder = this.#get(row, at.changedMs) < this.#get(first, at.changedMs);
        return more > 0 || (more === 0 && isOlder) ? row : first;
      });
    this.#numbers.fill(0, taken, taken + rowNumbers);
    this.#set(taken, at.identity, this.#identity);
    this.#set(taken, at.owner, this.#owner);
    return taken;
  }

  #get(row: number, place: number): number {
    return this.#numbers[row + place] ?? 0;
  }

  #set(row: number, place: number, value: number): void {
    this.#numbers[row + place] = value;
  }
}

/** Returns a whole number from 1 to 2⁵² − 1, the first 13 hexadecimal digits of a hash; 0 stands for an empty row. */
function numberOf(text: string): number {
  return Number.parseInt(hash("sha256", text).slice(0, 13), 16) || 1;
}

const clearedBySuccess = [
  ...[at.outOfQuotaUntilMs, at.failingUntilMs, at.client, at.probeMs, at.confirmations, at.withoutReset],
  ...[at.failures, at.ejections],
];

/**
 * Returns the identity of a provider: its Backend, its server, and the credentials whose quota it has. With other
 * credentials, it has another state.
 */
export function providerIdentity({ key, endpoints, ai }: Backend): string {
  return JSON.stringify([key, endpoints, ai?.provider, ai?.apiKey, ai?.signature?.credentials]);
}

/**
 * Returns the number of a client, at least 1, which is the same in every worker.
 *
 * @param client its identity or address.
 */
export function clientNumber(client: string): number {
  return 1 + hashOfText(client);
}
