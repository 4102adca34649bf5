/**
 * One memcached server. Its connection is opened with the first command, carries all commands, and is opened again
 * after it fails.
 */
import type { ConnectionOptions } from "node:tls";
import type { Clock } from "@gatewayproxy/runtime/clock";
import { errorMessage, toError } from "@gatewayproxy/runtime/thrown-value";
import type { MemcacheNode } from "memcache";
import type { MemcacheAddress } from "./memcache-options.ts";

/** One server, and the timeout of its responses. */
export interface MemcacheServerOptions {
  /** Its host and port. */
  readonly address: MemcacheAddress;
  /** Options of node:tls; absent: plain text. */
  readonly tls?: ConnectionOptions;
  /** Timeout of connecting and of each response, in ms. */
  readonly timeoutMs: number;
  /** Times responses, and the pause of 250 ms after a failure. */
  readonly clock: Clock;
}

/**
 * Maximum number of bytes between two responses. Responses have less than 300 bytes, and one read may bring 64 KiB of
 * them. The client buffers an incomplete response without a bound.
 */
const maxBytesWithoutResponse = 1_048_576;

/** After a failed connection, commands fail at once for this time, in ms. */
const reconnectPauseMs = 250;

/** The commands of one server. Each rejects if the server does not respond as expected and in time. */
export class MemcacheServer {
  readonly #options: MemcacheServerOptions;
  readonly #name: string;
  /** The connection that is open or being opened. */
  #node: MemcacheNode | undefined;
  #connection: Promise<MemcacheNode> | undefined;
  #failedMs = -Infinity;
  #failure: Error | undefined;
  #bytesSinceResponse = 0;

  constructor(options: MemcacheServerOptions) {
    const { host, port } = options.address;
    this.#options = options;
    this.#name = host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
  }

  /** Returns the value of a key, or `undefined`. */
  async get(key: string): Promise<string | undefined> {
    const values = (await this.#send(`get ${key}`, true)) as readonly string[] | undefined;
    return values?.[0];
  }

  /** Returns the new value; `undefined` without a counter. */
  async increment(key: string, by: number): Promise<number | undefined> {
    return counterOf(await this.#send(`incr ${key} ${by}`));
  }

  /** Returns the new value, at least 0; `undefined` without a counter. */
  async decrement(key: string, by: number): Promise<number | undefined> {
    return counterOf(await this.#send(`decr ${key} ${by}`));
  }

  /** Stores a value unless the key has one, and returns whether it did. `expires` is in the protocol's form. */
  async add(key: string, value: string, expires: number): Promise<boolean> {
    return (await this.#send(`add ${key} 0 ${expires} ${value.length}\r\n${value}`)) === "STORED";
  }

  /** Stores a value, replacing any other. */
  async set(key: string, value: string, expires: number): Promise<void> {
    await this.#send(`set ${key} 0 ${expires} ${value.length}\r\n${value}`);
  }

  /** Deletes a key, and returns whether it existed. */
  async delete(key: string): Promise<boolean> {
    return (await this.#send(`delete ${key}`)) === "DELETED";
  }

  /**
   * Returns the seconds until a key expires; Infinity when it does not exist or never expires, or when the server does
   * not support the command.
   */
  async secondsToExpiry(key: string): Promise<number> {
    // `HD t59`; servers before 1.6 do not know the command.
    const response = await this.#send(`mg ${key} t`).catch(() => "");
    const [, seconds] = / t(\d+)$/.exec(String(response)) ?? [];
    return seconds === undefined ? Infinity : Number(seconds);
  }

  /** Changes the expiry of a key. */
  async touch(key: string, expires: number): Promise<void> {
    await this.#send(`touch ${key} ${expires}`);
  }

  /** Resolves when the server responds. */
  async probe(): Promise<void> {
    await this.#send("version");
  }

  close(): void {
    this.#disconnect();
  }

  /** Rejects when the server cannot be reached, returns an error or does not respond in time. */
  async #send(command: string, isMultiline = false): Promise<unknown> {
    try {
      return await this.#withTimeout(this.#sendUntimed(command, isMultiline));
    } catch (error) {
      const text = errorMessage(error);
      // The error of a connection that was closed for a reason does not name it.
      throw new Error(`${this.#name}: ${this.#failure?.message ?? text}`, { cause: error });
    }
  }

  async #sendUntimed(command: string, isMultiline: boolean): Promise<unknown> {
    const node = await this.#ensureConnected();
    const response: unknown = await node.command(command, { isMultiline });
    this.#bytesSinceResponse = 0;
    return response;
  }

  /** Ends a connection whose server sends bytes that complete no response. */
  #boundResponses(node: MemcacheNode): void {
    this.#bytesSinceResponse = 0;
    node.socket?.on("data", (chunk: Buffer) => {
      this.#bytesSinceResponse += chunk.length;
      if (this.#node !== node || this.#bytesSinceResponse <= maxBytesWithoutResponse) return;
      this.#fail(new Error(`the server sent more than ${maxBytesWithoutResponse} bytes without a response`));
      this.#disconnect();
    });
  }

  #fail(error: Error): void {
    this.#failure = error;
    this.#failedMs = this.#options.clock.monotonicMs();
  }

  #ensureConnected(): Promise<MemcacheNode> {
    const { clock } = this.#options;
    const isPausing = clock.monotonicMs() - this.#failedMs < reconnectPauseMs;
    if (this.#connection === undefined && this.#failure !== undefined && isPausing) {
      return Promise.reject(this.#failure);
    }
    this.#connection ??= this.#connect();
    return this.#connection;
  }

  async #connect(): Promise<MemcacheNode> {
    const { address, tls } = this.#options;
    // The client's own timeout ends connections that are only idle.
    const options = { timeout: 0, keepAlive: true, ...(tls === undefined ? {} : { tls }) };
    // Loaded on demand: a service with Redis saves its memory.
    const { MemcacheNode } = await import("memcache");
    const node = new MemcacheNode(address.host, address.port, options);
    node.on("error", () => undefined);
    const closed = new Promise<never>((_, reject) => {
      node.on("close", () => {
        if (this.#node === node) this.#clearConnection();
        reject(new Error("the connection was closed"));
      });
    });
    closed.catch(() => undefined);
    this.#node = node;
    try {
      await Promise.race([node.connect(), closed]);
      this.#failure = undefined;
      this.#boundResponses(node);
      return node;
    } catch (error) {
      this.#fail(toError(error));
      if (this.#node === node) this.#clearConnection();
      throw error;
    }
  }

  #clearConnection(): void {
    this.#node = undefined;
    this.#connection = undefined;
  }

  /** Closes the connection. The commands that wait for a response fail. */
  #disconnect(): void {
    const node = this.#node;
    this.#clearConnection();
    void node?.disconnect();
  }

  #withTimeout<T>(work: Promise<T>): Promise<T> {
    const { clock, timeoutMs } = this.#options;
    const timeout = Promise.withResolvers<never>();
    const timer = clock.setTimer(timeoutMs, () => {
      timeout.reject(new Error(`memcached did not respond within ${timeoutMs} ms`));
      // A late response would be taken for that of another command.
      this.#disconnect();
    });
    return Promise.race([work, timeout.promise]).finally(() => timer.cancel());
  }
}

function counterOf(response: unknown): number | undefined {
  if (typeof response === "number") return response;
  if (response === "NOT_FOUND") return undefined;
  throw new Error(`unexpected response ${String(response)}`);
}
