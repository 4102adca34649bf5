/** One memcached: a connection that is opened with the first command, carries all of them, and is opened again when it broke. */
import type { ConnectionOptions } from "node:tls";
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { MemcacheNode } from "memcache";
import type { MemcacheAddress } from "./memcache-options.ts";

export interface MemcacheServerOptions {
  readonly address: MemcacheAddress;
  readonly tls?: ConnectionOptions;
  /** For a connection and for each answer, in ms. */
  readonly timeoutMs: number;
  readonly clock: Clock;
}

/** After a failed connection commands fail at once for so long. */
const reconnectPauseMs = 250;

export class MemcacheServer {
  readonly #options: MemcacheServerOptions;
  readonly #name: string;
  /** Of the connection that is open or being opened. */
  #node: MemcacheNode | undefined;
  #connection: Promise<MemcacheNode> | undefined;
  #failedMs = -Infinity;
  #failure: Error | undefined;

  constructor(options: MemcacheServerOptions) {
    const { host, port } = options.address;
    this.#options = options;
    this.#name = host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
  }

  /** The value under a key; undefined where there is none. */
  async get(key: string): Promise<string | undefined> {
    const values = (await this.#send(`get ${key}`, true)) as readonly string[] | undefined;
    return values?.[0];
  }

  /** The new value; undefined where there is no counter. */
  async increment(key: string, by: number): Promise<number | undefined> {
    return counterOf(await this.#send(`incr ${key} ${by}`));
  }

  /** The new value, at least 0; undefined where there is no counter. */
  async decrement(key: string, by: number): Promise<number | undefined> {
    return counterOf(await this.#send(`decr ${key} ${by}`));
  }

  /** Whether the value was stored, which it is not where the key has one. `expires` as the protocol has it. */
  async add(key: string, value: string, expires: number): Promise<boolean> {
    return (await this.#send(`add ${key} 0 ${expires} ${value.length}\r\n${value}`)) === "STORED";
  }

  /** Replaces the value under a key. */
  async set(key: string, value: string, expires: number): Promise<void> {
    await this.#send(`set ${key} 0 ${expires} ${value.length}\r\n${value}`);
  }

  /** Until a key ends; Infinity where it does not exist or never ends, or where the server is too old to tell. */
  async secondsLeft(key: string): Promise<number> {
    // `HD t59`; a server before 1.6 takes it for no command.
    const answer = await this.#send(`mg ${key} t`).catch(() => "");
    const [, seconds] = / t(\d+)$/.exec(String(answer)) ?? [];
    return seconds === undefined ? Infinity : Number(seconds);
  }

  /** Gives a key another end. */
  async touch(key: string, expires: number): Promise<void> {
    await this.#send(`touch ${key} ${expires}`);
  }

  /** Resolves when the server answers. */
  async probe(): Promise<void> {
    await this.#send("version");
  }

  close(): void {
    this.#drop();
  }

  /** Rejects when the server cannot be reached, answers with an error or does not answer in time. */
  async #send(command: string, isMultiline = false): Promise<unknown> {
    try {
      return await this.#inTime(this.#sendOn(command, isMultiline));
    } catch (error) {
      const text = error instanceof Error ? error.message : String(error);
      throw new Error(`${this.#name}: ${text}`, { cause: error });
    }
  }

  async #sendOn(command: string, isMultiline: boolean): Promise<unknown> {
    const node = await this.#connected();
    return node.command(command, { isMultiline });
  }

  #connected(): Promise<MemcacheNode> {
    const { clock } = this.#options;
    const isPausing = clock.monotonicMs() - this.#failedMs < reconnectPauseMs;
    if (this.#connection === undefined && this.#failure !== undefined && isPausing)
      return Promise.reject(this.#failure);
    this.#connection ??= this.#connect();
    return this.#connection;
  }

  async #connect(): Promise<MemcacheNode> {
    const { address, tls, clock } = this.#options;
    // The client's own timeout ends connections that are merely idle.
    const options = { timeout: 0, keepAlive: true, ...(tls === undefined ? {} : { tls }) };
    // Loaded by who needs it: a service with Redis does without its memory.
    const { MemcacheNode } = await import("memcache");
    const node = new MemcacheNode(address.host, address.port, options);
    node.on("error", () => undefined);
    const closed = new Promise<never>((_, reject) => {
      node.on("close", () => {
        if (this.#node === node) this.#forget();
        reject(new Error("the connection was closed"));
      });
    });
    closed.catch(() => undefined);
    this.#node = node;
    try {
      await Promise.race([node.connect(), closed]);
      this.#failure = undefined;
      return node;
    } catch (error) {
      this.#failure = error instanceof Error ? error : new Error(String(error));
      this.#failedMs = clock.monotonicMs();
      if (this.#node === node) this.#forget();
      throw error;
    }
  }

  #forget(): void {
    this.#node = undefined;
    this.#connection = undefined;
  }

  /** Ends the connection; the commands that wait on it fail. */
  #drop(): void {
    const node = this.#node;
    this.#forget();
    void node?.disconnect();
  }

  #inTime<T>(work: Promise<T>): Promise<T> {
    const { clock, timeoutMs } = this.#options;
    const late = Promise.withResolvers<never>();
    const timer = clock.setTimer(timeoutMs, () => {
      late.reject(new Error(`memcached did not answer within ${timeoutMs} ms`));
      // An answer that comes later would be taken for that of another command.
      this.#drop();
    });
    return Promise.race([work, late.promise]).finally(() => timer.cancel());
  }
}

function counterOf(answer: unknown): number | undefined {
  if (typeof answer === "number") return answer;
  if (answer === "NOT_FOUND") return undefined;
  throw new Error(`unexpected answer ${String(answer)}`);
}
