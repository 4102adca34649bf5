/**
 * The addresses of a host name, kept current: asked again when their time to live ends. What was known stays in force
 * when that fails, for a server does not go because its name server does.
 */
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import type { Logger } from "@gatewayproxy/runtime/log";
import type { ResolveName } from "@gatewayproxy/runtime/host-names";

/** Nobody is asked more often, whatever the time to live; nor less often. */
const shortestTtlMs = 1_000;
const longestTtlMs = 300_000;
/** After a failure. */
const retryMs = 5_000;

export interface NameWatchOptions {
  readonly host: string;
  readonly clock: Clock;
  readonly resolve: ResolveName;
  readonly log: Logger;
  /** Called when the set of addresses is another one. */
  readonly onChange: () => void;
}

export class NameWatch {
  readonly #options: NameWatchOptions;
  #addresses: readonly string[] = [];
  #timer: Timer | undefined;
  #isClosed = false;

  constructor(options: NameWatchOptions) {
    this.#options = options;
    void this.#ask();
  }

  /** Sorted; empty until the first answer. */
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
