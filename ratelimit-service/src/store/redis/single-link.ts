/** One connection to one Redis. */
import { createClient } from "@redis/client";
import { ConnectionCounts } from "./connection-counts.ts";
import {
  clientOptions,
  type LinkOptions,
  type OnLinkError,
  type RedisConnection,
  type RedisLink,
  type RedisReply,
  socketOptions,
} from "./redis-link.ts";
import { renderRedisAddress, tcpAddresses } from "./redis-options.ts";

export class SingleLink implements RedisLink {
  readonly connections = new ConnectionCounts();
  readonly #options: LinkOptions;
  readonly #onError: OnLinkError;
  #client: ReturnType<typeof newClient>;
  #wasOpen = false;

  constructor(options: LinkOptions, onError: OnLinkError) {
    this.#options = options;
    this.#onError = onError;
    this.#client = newClient(this.#options, this.connections, () => this.#wasOpen, this.#onError);
  }

  async open(): Promise<void> {
    await this.#client.connect();
    this.#wasOpen = true;
  }

  isReady(): boolean {
    return this.#client.isReady;
  }

  send(_key: string, command: string[]): Promise<RedisReply> {
    return this.#client.sendCommand<RedisReply>(command);
  }

  connectionOf(): string {
    return "";
  }

  activeConnections(): readonly RedisConnection[] {
    return [{ name: "", ping: () => this.#client.sendCommand(["PING"]) }];
  }

  reset(): void {
    this.connections.closedAll();
    this.#destroy();
    this.#client = newClient(this.#options, this.connections, () => this.#wasOpen, this.#onError);
  }

  close(): Promise<void> {
    this.#destroy();
    return Promise.resolve();
  }

  #destroy(): void {
    if (this.#client.isOpen) this.#client.destroy();
  }
}

function newClient(options: LinkOptions, connections: ConnectionCounts, repeats: () => boolean, onError: OnLinkError) {
  const [address] = options.addresses;
  if (address === undefined) throw new RangeError("a Redis needs an address");
  const socket = socketOptions(options, repeats);
  const client = createClient({
    ...clientOptions(options.auth),
    ...(options.database === undefined ? {} : { database: options.database }),
    socket:
      address.kind === "unix"
        ? { ...socket, path: address.path, tls: false }
        : { ...socket, ...tcpAddresses(options)[0] },
  });
  client.on("ready", () => connections.opened(""));
  client.on("end", () => connections.closed(""));
  return client.on("error", (error: Error) => {
    connections.closed("");
    onError(new Error(`${renderRedisAddress(address)}: ${error.message}`, { cause: error }));
  });
}
