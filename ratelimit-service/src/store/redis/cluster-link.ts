/** Connections to the masters of a Redis Cluster, each opened when a key first needs it. */
import { createCluster } from "@redis/client";
import calculateSlot from "cluster-key-slot";
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

export class ClusterLink implements RedisLink {
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

  send(key: string, command: string[]): Promise<RedisReply> {
    return this.#client.sendCommand<RedisReply>(key, false, command);
  }

  connectionOf(key: string): string {
    return this.#client.slots[calculateSlot(key)]?.master.address ?? "";
  }

  activeConnections(): readonly RedisConnection[] {
    const client = this.#client;
    return client.masters.map((master) => ({
      name: master.address,
      ping: async () => (await client.nodeClient(master)).sendCommand(["PING"]),
    }));
  }

  reset(): void {
    this.connections.closedAll();
    this.#destroy();
    this.#client = newClient(this.#options, this.connections, this.#onError);
  }

  close(): Promise<void> {
    this.#destroy();
    return Promise.resolve();
  }

  #destroy(): void {
    if (this.#client.isOpen) this.#client.destroy();
  }
}

function newClient(options: LinkOptions, connections: ConnectionCounts, onError: OnLinkError) {
  const socket = socketOptions(options, () => true);
  const client = createCluster({
    // A query for the slots to a node that hangs must time out, so that the next node is tried.
    rootNodes: tcpAddresses(options).map((address) => ({
      socket: { ...address, socketTimeout: options.timeoutMs },
    })),
    defaults: { ...clientOptions(options.auth), socket },
    RESP: 2,
    commandOptions: { timeout: 0 },
    minimizeConnections: true,
    topologyRefreshOnReconnectionAttemptStrategy: 500,
  });
  client.on("node-ready", ({ host, port }: ClusterNode) => connections.opened(`${host}:${port}`));
  for (const event of ["node-reconnecting", "node-disconnect"]) {
    client.on(event, ({ host, port }: ClusterNode) => connections.closed(`${host}:${port}`));
  }
  return client.on("error", onError);
}

/** The node in the client's events. */
interface ClusterNode {
  readonly host: string;
  readonly port: number;
}
