/** Clients with an address that the test chooses, for a gateway that expects a PROXY protocol header. */
import { connect, type Socket } from "node:net";
import { onTestFinished } from "vitest";
import type { TestGateway } from "./gateway.ts";

export interface ProxiedClient {
  readonly socket: Socket;
  /** All bytes received so far, in latin1. */
  readonly text: () => string;
}

/** Opens a connection from `address` and sends `text`. The connection is closed when the test ends. */
export function openFrom(gateway: TestGateway, address: string, text: string): ProxiedClient {
  const { hostname, port } = new URL(gateway.url());
  const socket = connect(Number(port), hostname);
  let received = "";
  socket.on("error", () => undefined).on("data", (chunk: Buffer) => (received += chunk.toString("latin1")));
  onTestFinished(() => void socket.destroy());
  const header = address.includes(":") ? `TCP6 ${address} 2001:db8:ffff::1` : `TCP4 ${address} 10.9.9.9`;
  socket.write(`PROXY ${header} 1 2\r\n${text}`);
  return { socket, text: () => received };
}
