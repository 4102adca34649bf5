/** One connection to the master that the sentinels name; it follows a failover. */
import { toError } from "@gatewayproxy/runtime/thrown-value";
import { createSentinel } from "@redis/client";
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
import { tcpAddresses } from "./redis-options.ts";

export class SentinelLink implements RedisLink {
  readonly connections = new ConnectionCounts();
  readonly #options: LinkOptions;
  readonly #onError: OnLinkError;
  #client: ReturnType<typeof newClient>;

  constructor(options: LinkOptions, onError: OnLinkError) {
    this.#options = options;
    this.#onError = onError;
    this.#client = newClient(this.#options, this.connections, this.#onError);
  }

  async open(): Promise<void> {
    await this.#client.connect();
  }

  isReady(): boolean {
    return this.#client.isReady;
  }

  send(_key: string, command: string[]): Promise<RedisReply> {
    return this.#client.sendCommand<RedisReply>(false, command);
  }

  connectionOf(): string {
    return "";
  }

  activeConnections(): readonly RedisConnection[] {
    return [{ name: "", ping: () => this.#client.sendCommand(false, ["PING"]) }];
  }

  reset(): void {
    this.connections.closedAll();
    const old = this.#client;
    this.#client = newClient(this.#options, this.connections, this.#onError);
    if (old.isOpen) old.destroy().catch(this.#onError);
  }

  async close(): Promise<void> {
    if (this.#client.isOpen) await this.#client.destroy();
  }
}

function newClient(options: LinkOptions, connections: ConnectionCounts, onError: OnLinkError) {
  const { auth, sentinelAuth, masterName = "" } = options;
  // The sentinel client reconnects broken connections, to the current master.
  const socket = socketOptions(options, () => true);
  const client = createSentinel({
    name: masterName,
    sentinelRootNodes: tcpAddresses(options),
    RESP: 2,
    commandOptions: { timeout: 0 },
    // Without a reserved connection every command would wait for the reply to the previous one.
    reserveClient: true,
    // Without it the reasons of broken connections are lost.
    passthroughClientErrorEvents: true,
    scanInterval: 10_000,
    nodeClientOptions: { ...clientOptions(auth), socket },
    sentinelClientOptions: { ...clientOptions(sentinelAuth), socket },
  });
  client.on("ready", () => connections.opened(""));
  for (const event of ["reconnecting", "end"]) client.on(event, () => connections.closed(""));
  // The library emits some errors as texts.
  return client.on("error", (error: unknown) => onError(toError(error)));
}
