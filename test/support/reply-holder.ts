/** A relay in front of a Redis that holds its replies back for as long as the test says. */
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { onTestFinished } from "vitest";

export interface ReplyHolder {
  readonly port: number;
  /** Holds all replies back from the next time on that this command is sent. */
  holdFrom(command: string): void;
  isHolding(): boolean;
  /** Relays what was held back, and further replies at once. */
  release(): void;
}

/** Listens on a free port of 127.0.0.1 until the test ends. @param target the port of the Redis. */
export async function startReplyHolder(target: number): Promise<ReplyHolder> {
  const sockets = new Set<Socket>();
  let awaited: string | undefined;
  let held: (() => void)[] | undefined;
  const server = createServer((client) => {
    const redis = connect(target, "127.0.0.1");
    for (const [socket, other] of [
      [client, redis],
      [redis, client],
    ] as const) {
      sockets.add(socket);
      socket.on("error", () => undefined).on("close", () => other.destroy());
    }
    client.on("data", (bytes: Buffer) => {
      if (awaited !== undefined && bytes.includes(`\r\n${awaited}\r\n`)) held ??= [];
      redis.write(bytes);
    });
    redis.on("data", (bytes: Buffer) => {
      if (held === undefined) client.write(bytes);
      else held.push(() => client.write(bytes));
    });
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return {
    // A TCP server that listens has such an address.
    port: (server.address() as AddressInfo).port,
    holdFrom: (command) => (awaited = command),
    isHolding: () => held !== undefined,
    release() {
      awaited = undefined;
      for (const relay of held ?? []) relay();
      held = undefined;
    },
  };
}
