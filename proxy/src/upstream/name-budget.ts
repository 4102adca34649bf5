/**
 * Bounds the work and the memory for the names of backends. A tenant chooses the names, and its name servers choose
 * their TTLs and numbers of addresses, so those of a namespace have bounds in all.
 */
import { ConcurrencyLimit } from "@gatewayproxy/runtime/concurrency-limit";

/** Bounds of the TTL. */
const shortestTtlMs = 1_000;
const longestTtlMs = 300_000;
/** Interval after a failure. */
const retryMs = 5_000;
/** The names of a namespace are resolved 50 times a second at most. */
const msForName = 20;
/** A response of 64 KiB has 4,000 addresses, which take some 40 ms to read, to compare and to balance. */
const msForAddress = 10;
/** As many as endpoints of a Service. */
const maxAddressesOfName = 1_000;
/** Of all names of a namespace. */
const maxAddresses = 16_384;
/**
 * Names of a namespace that are resolved at the same time. All of them are due when the process starts, and their
 * queries would delay those of others in the process, the network and the name server.
 */
const maxConcurrent = 32;

/** The names of a namespace. */
interface NamesOfNamespace {
  count: number;
  readonly queries: ConcurrencyLimit;
}

/** The names of one worker, by the namespaces of their backends. */
export class NameBudget {
  readonly #names = new Map<string, NamesOfNamespace>();

  /** A name of a namespace is resolved from now on. */
  add(namespace: string): void {
    this.#of(namespace).count++;
  }

  /** The name is not resolved any more. */
  delete(namespace: string): void {
    this.#of(namespace).count--;
    this.#forgetUnused(namespace);
  }

  /** Runs `resolve` when it is the turn of a name of the namespace. */
  async inTurn<Result>(namespace: string, resolve: () => Promise<Result>): Promise<Result> {
    try {
      return await this.#of(namespace).queries.run(resolve);
    } finally {
      this.#forgetUnused(namespace);
    }
  }

  /** Returns how many addresses of a name are used, at least 1. */
  maxAddresses(namespace: string): number {
    const share = Math.floor(maxAddresses / (this.#names.get(namespace)?.count ?? 1));
    return Math.max(1, Math.min(maxAddressesOfName, share));
  }

  /**
   * Returns the time until a name is resolved again.
   *
   * @param found the TTL, and the number of addresses in the response; undefined for a failure.
   */
  waitMs(namespace: string, found: { readonly ttlMs: number; readonly addresses: number } | undefined): number {
    const ownMs = found === undefined ? retryMs : Math.max(shortestTtlMs, found.ttlMs, found.addresses * msForAddress);
    return Math.min(longestTtlMs, Math.max(ownMs, (this.#names.get(namespace)?.count ?? 0) * msForName));
  }

  #of(namespace: string): NamesOfNamespace {
    const known = this.#names.get(namespace) ?? { count: 0, queries: new ConcurrencyLimit(maxConcurrent) };
    this.#names.set(namespace, known);
    return known;
  }

  #forgetUnused(namespace: string): void {
    const { count, queries } = this.#of(namespace);
    if (count === 0 && queries.isIdle) this.#names.delete(namespace);
  }
}
