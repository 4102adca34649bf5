/**
 * The addresses of a host name, kept current: asked again when their time to live ends. What was known stays in force
 * when that fails, for a server does not go because its name server does.
 */
import { lookup, Resolver } from "node:dns/promises";
import { networkInterfaces } from "node:os";
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import type { Logger } from "@gatewayproxy/runtime/log";

/** What a name stood for when it was asked for. */
export interface ResolvedName {
  /** IP addresses of both families; never empty. */
  readonly addresses: readonly string[];
  readonly ttlMs: number;
}

/** Rejects where a name has no address, or nobody answers. */
export type ResolveName = (host: string) => Promise<ResolvedName>;

/** Nobody is asked more often, whatever the time to live; nor less often. */
const shortestTtlMs = 1_000;
const longestTtlMs = 300_000;
/** After a failure, and where nothing tells a time to live. */
const retryMs = 5_000;
const unknownTtlMs = 30_000;

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

const resolver = new Resolver({ timeout: 2_000, tries: 2 });

/**
 * Asks the name servers for both families, with their times to live; where they know nothing, the machine itself, which
 * also knows `/etc/hosts` and search domains.
 */
export async function resolveName(host: string): Promise<ResolvedName> {
  const families = await Promise.all([
    resolver.resolve4(host, { ttl: true }).catch(() => []),
    resolver.resolve6(host, { ttl: true }).catch(() => []),
  ]);
  const records = families.flat();
  if (records.length > 0) {
    const addresses = reachable(records.map(({ address }) => address));
    return { addresses, ttlMs: Math.min(...records.map(({ ttl }) => ttl)) * 1_000 };
  }
  const found = await lookup(host, { all: true });
  return { addresses: reachable(found.map(({ address }) => address)), ttlMs: unknownTtlMs };
}

/** Without addresses of a family that the machine has no address of itself, unless that leaves none (RFC 6724 §5). */
function reachable(addresses: readonly string[]): readonly string[] {
  const own = Object.values(networkInterfaces()).flatMap((each) => each ?? []);
  const families = new Set(own.filter(({ internal, scopeid }) => !internal && !scopeid).map(({ family }) => family));
  const isReachable = (address: string): boolean =>
    families.has(address.includes(":") ? "IPv6" : "IPv4") || isLoopback(address);
  const kept = addresses.filter(isReachable);
  return kept.length === 0 ? addresses : kept;
}

function isLoopback(address: string): boolean {
  return address === "::1" || address.startsWith("127.");
}
