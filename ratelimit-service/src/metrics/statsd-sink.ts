/**
 * Sends what the service has counted to a statsd server, now and then. What could not be sent is sent with the next lot:
 * a counter's base moves only when its lines are out.
 */
import { createSocket } from "node:dgram";
import { lookup } from "node:dns/promises";
import { connect } from "node:net";
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import { type CounterValues, statsdCounters, statsdLines } from "./statsd-lines.ts";
import type { StatsSnapshot } from "./stats-snapshot.ts";

export interface StatsdSinkOptions {
  readonly host: string;
  readonly port: number;
  readonly protocol: "tcp" | "udp";
  readonly flushIntervalMs: number;
  /** EXTRA_TAGS */
  readonly extraTags: ReadonlyMap<string, string>;
  readonly clock: Clock;
  readonly collect: () => Promise<StatsSnapshot>;
  /** A server that could not be reached; the next attempt is an interval away. */
  readonly onFault: (error: unknown) => void;
  /** Told of the lines of each lot that was sent. */
  readonly onSent?: (lines: readonly string[]) => void;
}

/** Largest datagram that crosses an Ethernet in one piece. */
const maxDatagramBytes = 1_432;
const sendTimeoutMs = 5_000;

export class StatsdSink {
  readonly #options: StatsdSinkOptions;
  #sent: CounterValues = new Map();
  #timer: Timer | undefined;
  #isClosed = false;

  constructor(options: StatsdSinkOptions) {
    this.#options = options;
    this.#schedule();
  }

  /** Sends what has been counted since the last time. Never rejects. */
  async flush(): Promise<void> {
    const { collect, extraTags, onFault, onSent } = this.#options;
    try {
      const stats = await collect();
      const counters = statsdCounters(stats, extraTags);
      const lines = statsdLines(stats, counters, this.#sent, extraTags);
      await this.#send(lines);
      this.#sent = counters;
      onSent?.(lines);
    } catch (error) {
      onFault(error);
    }
  }

  /** Sends the rest and ends. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#timer?.cancel();
    await this.flush();
  }

  #schedule(): void {
    const { clock, flushIntervalMs } = this.#options;
    this.#timer = clock.setTimer(flushIntervalMs, () => {
      void this.flush().then(() => {
        if (!this.#isClosed) this.#schedule();
      });
    });
  }

  #send(lines: readonly string[]): Promise<void> {
    return this.#options.protocol === "tcp" ? this.#sendStream(lines) : this.#sendDatagrams(lines);
  }

  /** A connection for each lot: statsd servers come and go, and a lot is seconds apart. */
  async #sendStream(lines: readonly string[]): Promise<void> {
    const { host, port } = this.#options;
    const { promise, resolve, reject } = Promise.withResolvers<undefined>();
    const socket = connect(port, host);
    socket.setTimeout(sendTimeoutMs, () => socket.destroy(new Error(`statsd at ${host}:${port} takes no lines`)));
    socket.on("error", reject);
    socket.on("close", () => resolve(undefined));
    socket.resume();
    socket.end(lines.map((line) => `${line}\n`).join(""));
    await promise;
  }

  async #sendDatagrams(lines: readonly string[]): Promise<void> {
    const { host, port } = this.#options;
    const { address, family } = await lookup(host);
    const socket = createSocket(family === 6 ? "udp6" : "udp4");
    try {
      for (const datagram of datagramsOf(lines)) {
        const { promise, resolve, reject } = Promise.withResolvers<undefined>();
        socket.send(datagram, port, address, (error) => {
          if (error === null) resolve(undefined);
          else reject(error);
        });
        await promise;
      }
    } finally {
      socket.close();
    }
  }
}

/** Lines packed into as few datagrams as they fit in. */
function datagramsOf(lines: readonly string[]): string[] {
  const datagrams: string[] = [];
  let datagram = "";
  for (const line of lines) {
    if (datagram !== "" && Buffer.byteLength(datagram) + 1 + Buffer.byteLength(line) > maxDatagramBytes) {
      datagrams.push(datagram);
      datagram = "";
    }
    datagram += datagram === "" ? line : `\n${line}`;
  }
  return datagram === "" ? datagrams : [...datagrams, datagram];
}
