/**
 * The local ports of connections that this worker has closed. The side that closes a TCP connection first keeps its
 * port for a minute (TIME-WAIT, RFC 9293 §3.6.1), and each address has some 28,000 ports towards an endpoint. A
 * connection that is reset keeps none, so connections are reset where many ports are kept already.
 */
import type { Clock } from "@gatewayproxy/runtime/clock";

/** What Linux keeps a port for. */
const keptMs = 60_000;
const bucketMs = 10_000;
/** A port leaves with its bucket, so that none leaves early. */
const bucketCount = keptMs / bucketMs + 1;

/** The connections of a client to an address. */
export interface PortUse {
  /** `host:port` of the endpoint. */
  readonly address: string;
  /** The client for which the connection was used last; undefined for the proxy itself. */
  readonly client: string | undefined;
}

/** The kept ports of one worker. */
export class LocalPorts {
  readonly #clock: Clock;
  readonly #max: number;
  readonly #addresses = new Map<string, KeptPorts>();

  /** @param max the most ports to keep for each address. Default: no maximum. */
  constructor(clock: Clock, max = Number.POSITIVE_INFINITY) {
    this.#clock = clock;
    this.#max = max;
  }

  /**
   * Whether a connection must not keep its port. From half of the maximum on these are the connections of clients that
   * have more ports than the average client; at the maximum all.
   */
  mustReset({ address, client }: PortUse): boolean {
    const kept = this.#addresses.get(address);
    if (kept === undefined) return false;
    kept.forget(this.#bucketNow());
    if (kept.total >= this.#max) return true;
    return kept.total >= this.#max / 2 && kept.of(client) >= kept.total / kept.clients;
  }

  /** The proxy has closed a connection, whose port is kept. */
  add({ address, client }: PortUse): void {
    const bucket = this.#bucketNow();
    let kept = this.#addresses.get(address);
    if (kept === undefined) {
      kept = new KeptPorts(bucket);
      this.#addresses.set(address, kept);
    } else {
      kept.forget(bucket);
    }
    kept.add(client);
  }

  /** Forgets the addresses without a port. */
  sweep(): void {
    const bucket = this.#bucketNow();
    for (const [address, kept] of this.#addresses) {
      kept.forget(bucket);
      if (kept.total === 0) this.#addresses.delete(address);
    }
  }

  #bucketNow(): number {
    return Math.floor(this.#clock.monotonicMs() / bucketMs);
  }
}

/** The kept ports towards one address. */
class KeptPorts {
  /** By client, in order; the newest is last. */
  readonly #buckets = [new Map<string | undefined, number>()];
  readonly #byClient = new Map<string | undefined, number>();
  #newest: number;
  total = 0;

  constructor(bucket: number) {
    this.#newest = bucket;
  }

  /** The number of clients with a port. */
  get clients(): number {
    return this.#byClient.size;
  }

  of(client: string | undefined): number {
    return this.#byClient.get(client) ?? 0;
  }

  /** Adds a port to the newest bucket. */
  add(client: string | undefined): void {
    const newest = this.#buckets.at(-1);
    newest?.set(client, (newest.get(client) ?? 0) + 1);
    this.#byClient.set(client, this.of(client) + 1);
    this.total++;
  }

  /** Begins `bucket`, and forgets the ports of those that are too old. */
  forget(bucket: number): void {
    const begun = Math.min(bucket - this.#newest, bucketCount);
    this.#newest = bucket;
    for (let at = 0; at < begun; at++) this.#buckets.push(new Map<string | undefined, number>());
    while (this.#buckets.length > bucketCount) {
      for (const [client, ports] of this.#buckets.shift() ?? []) this.#subtract(client, ports);
    }
  }

  #subtract(client: string | undefined, ports: number): void {
    const left = this.of(client) - ports;
    if (left > 0) this.#byClient.set(client, left);
    else this.#byClient.delete(client);
    this.total -= ports;
  }
}
