/**
 * Sends what the service has counted to a statsd server at an interval. A counter's growth is handed to a connection at
 * most once, because nothing says which bytes a server read before the connection ended: what was handed over counts as
 * sent, whatever becomes of the connection. What was not, since the server could not be reached or took no more, goes
 * out at a later interval.
 */
import { createSocket } from "node:dgram";
import { lookup } from "node:dns/promises";
import { connect, type Socket } from "node:net";
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import { type StatsdLine, statsdLines, type WriteLine } from "./statsd-lines.ts";
import type { StatsSnapshot } from "./stats-snapshot.ts";

export interface StatsdSinkOptions {
  readonly host: string;
  readonly port: number;
  readonly protocol: "tcp" | "udp";
  readonly flushIntervalMs: number;
  /** EXTRA_TAGS */
  readonly extraTags: ReadonlyMap<string, string>;
  /** Form of lines; statsd's own unless given. */
  readonly write?: WriteLine;
  readonly clock: Clock;
  readonly collect: () => Promise<StatsSnapshot>;
  /** A server that could not be reached, or took no lines; the next attempt is an interval away. */
  readonly onFault: (error: unknown) => void;
  /** Told of the lines of each lot that was sent whole. */
  readonly onSent?: (lines: readonly string[]) => void;
}

/** Largest datagram that crosses an Ethernet in one piece. */
const maxDatagramBytes = 1_432;
/** Bytes handed to a TCP connection at once; when the connection breaks, no more than these can be lost. */
const maxChunkBytes = 16_384;
/** Longest wait for a connection, for a chunk to be taken, and for the server to close its side. */
const sendTimeoutMs = 5_000;

export class StatsdSink {
  readonly #options: StatsdSinkOptions;
  /** By name: the value up to which a counter's growth was handed over. */
  readonly #sent = new Map<string, number>();
  /** The lot that is being sent; two at once would both send the same growth. */
  #sending: Promise<void> = Promise.resolve();
  #timer: Timer | undefined;
  #isClosed = false;

  constructor(options: StatsdSinkOptions) {
    this.#options = options;
    this.#schedule();
  }

  /** Sends what has been counted since the last time, after a lot that is under way. Never rejects. */
  flush(): Promise<void> {
    this.#sending = this.#sending.then(() => this.#sendLot());
    return this.#sending;
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

  async #sendLot(): Promise<void> {
    const { collect, extraTags, write, protocol, onFault, onSent } = this.#options;
    try {
      const lines = statsdLines(await collect(), this.#sent, extraTags, write);
      await (protocol === "tcp" ? this.#sendStream(lines) : this.#sendDatagrams(lines));
      onSent?.(lines.map(({ text }) => text));
    } catch (error) {
      onFault(error);
    }
  }

  /** A connection for each lot: statsd servers come and go, and a lot is seconds apart. */
  async #sendStream(lines: readonly StatsdLine[]): Promise<void> {
    const { host, port } = this.#options;
    const socket = connect({ host, port });
    socket.setTimeout(sendTimeoutMs, () => socket.destroy(new Error(`statsd at ${host}:${port} takes no lines`)));
    const broken = new Promise<never>((_, reject) => {
      socket.on("error", reject);
      socket.on("close", () => reject(new Error(`statsd at ${host}:${port} closed the connection`)));
    });
    // Nobody waits for it once everything was handed over.
    broken.catch(() => undefined);
    await Promise.race([new Promise((resolve) => socket.once("connect", resolve)), broken]);
    socket.resume();
    for (const chunk of packed(lines, maxChunkBytes)) {
      this.#handOver(chunk);
      await Promise.race([written(socket, chunk), broken]);
    }
    socket.end();
  }

  async #sendDatagrams(lines: readonly StatsdLine[]): Promise<void> {
    const { host, port } = this.#options;
    const { address, family } = await lookup(host);
    const socket = createSocket(family === 6 ? "udp6" : "udp4");
    try {
      for (const datagram of packed(lines, maxDatagramBytes)) {
        const { promise, resolve, reject } = Promise.withResolvers<undefined>();
        socket.send(datagram.map(({ text }) => text).join("\n"), port, address, (error) => {
          if (error === null) resolve(undefined);
          else reject(error);
        });
        // A datagram that the system refuses has not left the machine.
        await promise;
        this.#handOver(datagram);
      }
    } finally {
      socket.close();
    }
  }

  #handOver(lines: readonly StatsdLine[]): void {
    for (const { counter } of lines) if (counter !== undefined) this.#sent.set(...counter);
  }
}

/** Resolves when the system has taken the bytes. */
function written(socket: Socket, lines: readonly StatsdLine[]): Promise<void> {
  return new Promise((resolve, reject) => {
    socket.write(lines.map(({ text }) => `${text}\n`).join(""), (error) => {
      if (error === undefined || error === null) resolve();
      else reject(error);
    });
  });
}

/** Lines in order in as few pieces as possible, each of `maxBytes` with its line breaks at most; a longer line is alone. */
function packed(lines: readonly StatsdLine[], maxBytes: number): StatsdLine[][] {
  const pieces: StatsdLine[][] = [];
  let piece: StatsdLine[] = [];
  let bytes = 0;
  for (const line of lines) {
    const length = Buffer.byteLength(line.text) + 1;
    if (piece.length > 0 && bytes + length > maxBytes) {
      pieces.push(piece);
      piece = [];
      bytes = 0;
    }
    piece.push(line);
    bytes += length;
  }
  return piece.length === 0 ? pieces : [...pieces, piece];
}
