/**
 * Bounds the work and the memory for the names of backends. A tenant chooses the names, and its name servers choose their TTLs and
 * numbers of addresses, so those of a namespace have bounds in all.
 */

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

/** The names of one worker, by the namespaces of their backends. */
export class NameBudget {
  readonly #names = new Map<string, number>();

  /** A name of a namespace is resolved from now on. */
  add(namespace: string): void {
    this.#names.set(namespace, (this.#names.get(namespace) ?? 0) + 1);
  }

  /** The name is not resolved any more. */
  delete(namespace: string): void {
    const left = (this.#names.get(namespace) ?? 1) - 1;
    if (left === 0) this.#names.delete(namespace);
    else this.#names.set(namespace, left);
  }

  /** Returns how many addresses of a name are used, at least 1. */
  maxAddresses(namespace: string): number {
    const share = Math.floor(maxAddresses / (this.#names.get(namespace) ?? 1));
    return Math.max(1, Math.min(maxAddressesOfName, share));
  }

  /**
   * Returns the time until a name is resolved again.
   *
   * @param found the TTL, and the number of addresses in the response; undefined for a failure.
   */
  waitMs(namespace: string, found: { readonly ttlMs: number; readonly addresses: number } | undefined): number {
    const ownMs = found === undefined ? retryMs : Math.max(shortestTtlMs, found.ttlMs, found.addresses * msForAddress);
    return Math.min(longestTtlMs, Math.max(ownMs, (this.#names.get(namespace) ?? 0) * msForName));
  }
}
