/**
 * Sends the counts of the service to a statsd server at an interval. The growth of a counter is written to a connection
 * at most once, because it is unknown which bytes a server read before the connection ended. Growth that could not be
 * written, because the server could not be reached or did not read, is sent at a later interval.
 */
import { createSocket } from "node:dgram";
import { lookup } from "node:dns/promises";
import { connect, type Socket } from "node:net";
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import { type StatsdLine, statsdLines, type WriteLine } from "./statsd-lines.ts";
import type { StatsSnapshot } from "./stats-snapshot.ts";

/** The server, and the source of the counts. */
export interface StatsdSinkOptions {
  /** A host name or an IP address, resolved for each batch. */
  readonly host: string;
  /** The port of the server. */
  readonly port: number;
  /** `udp` sends datagrams of at most 1,432 bytes. */
  readonly protocol: "tcp" | "udp";
  /** Milliseconds between two batches. */
  readonly flushIntervalMs: number;
  /** EXTRA_TAGS */
  readonly extraTags: ReadonlyMap<string, string>;
  /** Renders lines; the default is plain statsd. */
  readonly write?: WriteLine;
  /** Times the batches. */
  readonly clock: Clock;
  /** Returns the counts of all threads together. */
  readonly collect: () => Promise<StatsSnapshot>;
  /** Called when the server cannot be reached or does not read. The next attempt is one interval later. */
  readonly onError: (error: unknown) => void;
  /** Called with the lines of each batch that was sent completely. */
  readonly onSent?: (lines: readonly string[]) => void;
}

/** Largest datagram that fits into an Ethernet frame. */
const maxDatagramBytes = 1_432;
/** Bytes per write to a TCP connection; when the connection breaks, at most these are lost. */
const maxChunkBytes = 16_384;
/** Longest wait for a connection, for a write to complete, and for the server to close its side, in ms. */
const sendTimeoutMs = 5_000;

/** The sink of one server, from the constructor to `close`. */
export class StatsdSink {
  readonly #options: StatsdSinkOptions;
  /** The value of each counter that was sent last, by its name. */
  readonly #sent = new Map<string, number>();
  /** The batch that is being sent; two at once would send the same growth. */
  #sending: Promise<void> = Promise.resolve();
  #timer: Timer | undefined;
  #isClosed = false;

  constructor(options: StatsdSinkOptions) {
    this.#options = options;
    this.#schedule();
  }

  /** Sends the growth since the last time, after the batch in progress. Never rejects. */
  flush(): Promise<void> {
    this.#sending = this.#sending.then(() => this.#sendBatch());
    return this.#sending;
  }

  /** Sends the rest and closes. */
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

  async #sendBatch(): Promise<void> {
    const { collect, extraTags, write, protocol, onError, onSent } = this.#options;
    try {
      const lines = statsdLines(await collect(), this.#sent, extraTags, write);
      await (protocol === "tcp" ? this.#sendStream(lines) : this.#sendDatagrams(lines));
      onSent?.(lines.map(({ text }) => text));
    } catch (error) {
      onError(error);
    }
  }

  /** Opens a connection for each batch: statsd servers restart, and batches are seconds apart. */
  async #sendStream(lines: readonly StatsdLine[]): Promise<void> {
    const { host, port } = this.#options;
    const socket = connect({ host, port });
    socket.setTimeout(sendTimeoutMs, () => socket.destroy(new Error(`statsd at ${host}:${port} does not read`)));
    const connectionLost = new Promise<never>((_, reject) => {
      socket.on("error", reject);
      socket.on("close", () => reject(new Error(`statsd at ${host}:${port} closed the connection`)));
    });
    // Errors after the last line was sent are ignored.
    connectionLost.catch(() => undefined);
    await Promise.race([new Promise((resolve) => socket.once("connect", resolve)), connectionLost]);
    socket.resume();
    for (const chunk of packLines(lines, maxChunkBytes)) {
      this.#recordSent(chunk);
      await Promise.race([writeLines(socket, chunk), connectionLost]);
    }
    socket.end();
  }

  async #sendDatagrams(lines: readonly StatsdLine[]): Promise<void> {
    const { host, port } = this.#options;
    const { address, family } = await lookup(host);
    const socket = createSocket(family === 6 ? "udp6" : "udp4");
    try {
      for (const datagram of packLines(lines, maxDatagramBytes)) {
        const { promise, resolve, reject } = Promise.withResolvers<undefined>();
        socket.send(datagram.map(({ text }) => text).join("\n"), port, address, (error) => {
          if (error === null) resolve(undefined);
          else reject(error);
        });
        // A datagram that the system rejects has not left the machine.
        await promise;
        this.#recordSent(datagram);
      }
    } finally {
      socket.close();
    }
  }

  #recordSent(lines: readonly StatsdLine[]): void {
    for (const { counter } of lines) if (counter !== undefined) this.#sent.set(...counter);
  }
}

/** Resolves when the system has accepted the bytes. */
function writeLines(socket: Socket, lines: readonly StatsdLine[]): Promise<void> {
  return new Promise((resolve, reject) => {
    socket.write(lines.map(({ text }) => `${text}\n`).join(""), (error) => {
      if (error === undefined || error === null) resolve();
      else reject(error);
    });
  });
}

/**
 * Packs lines in order into as few pieces as possible, each of at most `maxBytes` with its line breaks; a longer line
 * is alone.
 */
function packLines(lines: readonly StatsdLine[], maxBytes: number): StatsdLine[][] {
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
