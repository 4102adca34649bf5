/**
 * The current addresses of a host name: resolved again when their TTL ends. If that fails, the known addresses stay in use,
 * since a server may be available without its DNS server.
 */
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import type { Logger } from "@gatewayproxy/runtime/log";
import type { ResolveName } from "@gatewayproxy/runtime/host-names";

/** Bounds of the TTL. */
const shortestTtlMs = 1_000;
const longestTtlMs = 300_000;
/** Interval after a failure. */
const retryMs = 5_000;

/** The host name, and the receiver of its addresses. */
export interface HostResolverOptions {
  /** A DNS name. */
  readonly host: string;
  /** Times the next query: after the TTL, within 1 s to 5 minutes, or 5 s after a failure. */
  readonly clock: Clock;
  /** Returns the addresses with their TTL, or rejects. */
  readonly resolve: ResolveName;
  /** Receives changes and failures at debug. */
  readonly log: Logger;
  /** Called when the set of addresses has changed. */
  readonly onChange: () => void;
}

/** The addresses of one host name, which are resolved from the constructor until `close`. */
export class HostResolver {
  readonly #options: HostResolverOptions;
  #addresses: readonly string[] = [];
  #timer: Timer | undefined;
  #isClosed = false;

  constructor(options: HostResolverOptions) {
    this.#options = options;
    void this.#ask();
  }

  /** Sorted; empty until the first response. */
  get addresses(): readonly string[] {
    return this.#addresses;
  }

  close(): void {
    this.#isClosed = true;
    this.#timer?.cancel();
  }

  async #ask(): Promise<void> {
    const { host, clock, resolve, log } = this.#options;
    const resolved = await resolve(host).catch((error: unknown) => {
      log.debug({ host, err: error, retryMs }, "name not resolved; it is tried again");
    });
    if (this.#isClosed) return;
    const ttlMs = resolved === undefined ? retryMs : Math.min(Math.max(resolved.ttlMs, shortestTtlMs), longestTtlMs);
    this.#timer = clock.setTimer(ttlMs, () => void this.#ask());
    if (resolved === undefined) return;
    log.trace({ host, addresses: resolved.addresses, ttlMs }, "name resolved");
    this.#take(resolved.addresses);
  }

  #take(found: readonly string[]): void {
    const addresses = [...new Set(found)].sort();
    if (addresses.join() === this.#addresses.join()) return;
    this.#addresses = addresses;
    const { host, log, onChange } = this.#options;
    log.debug({ host, addresses }, "addresses of a name changed");
    onChange();
  }
}
