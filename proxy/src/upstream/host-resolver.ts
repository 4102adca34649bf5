/**
 * The current addresses of a host name: resolved again when their TTL ends. If that fails, the known addresses stay in
 * use, since a server may be available without its DNS server.
 */
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import type { Logger } from "@gatewayproxy/runtime/log";
import type { ResolveName } from "@gatewayproxy/runtime/host-names";
import type { NameBudget } from "./name-budget.ts";

/** The host name, and the receiver of its addresses. */
export interface HostResolverOptions {
  /** A DNS name. */
  readonly host: string;
  /** Of the backend. */
  readonly namespace: string;
  /**
   * Decides when a query is (in the turn of its namespace; again after the TTL, within 1 s to 5 minutes, or 5 s after a
   * failure), and how many addresses are used.
   */
  readonly budget: NameBudget;
  /** Times the next query. */
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
    options.budget.add(options.namespace);
    void this.#ask();
  }

  /** Sorted, as many as the budget permits; empty until the first response. */
  get addresses(): readonly string[] {
    return this.#addresses;
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#options.budget.delete(this.#options.namespace);
    this.#timer?.cancel();
  }

  async #ask(): Promise<void> {
    const { host, namespace, budget, clock, resolve, log } = this.#options;
    const resolveNow = async () => (this.#isClosed ? undefined : await resolve(host));
    const resolved = await budget.inTurn(namespace, resolveNow).catch((error: unknown) => {
      log.debug(
        { host, err: error, retryMs: budget.waitMs(namespace, undefined) },
        "name not resolved; it is tried again",
      );
      return undefined;
    });
    if (this.#isClosed) return;
    const found = resolved && { ttlMs: resolved.ttlMs, addresses: resolved.addresses.length };
    const ttlMs = budget.waitMs(namespace, found);
    this.#timer = clock.setTimer(ttlMs, () => void this.#ask());
    if (resolved === undefined) return;
    log.trace({ host, addresses: resolved.addresses, ttlMs }, "name resolved");
    this.#take(resolved.addresses);
  }

  #take(found: readonly string[]): void {
    const { host, namespace, budget, log, onChange } = this.#options;
    const addresses = [...new Set(found)].sort().slice(0, budget.maxAddresses(namespace));
    if (addresses.join() === this.#addresses.join()) return;
    this.#addresses = addresses;
    log.debug({ host, addresses }, "addresses of a name changed");
    onChange();
  }
}
