import { expect, test } from "vitest";
import { EndpointSockets, type SocketHolder } from "./endpoint-sockets.ts";

test("clients that get no socket cause no further computation of shares until one was taken or has ended", () => {
  let reads = 0;
  const holder: SocketHolder = {
    closeIdleConnection: () => false,
    get busyConnections() {
      reads++;
      return [];
    },
    hasPending: true,
    serveNext: () => undefined,
  };
  const sockets = new EndpointSockets(1);
  expect(sockets.take(holder, "a")).toBe(true);
  for (let at = 0; at < 1_000; at++) expect(sockets.take(holder, "a")).toBe(false);
  expect(reads).toBe(1);
  sockets.release(holder);
  expect(sockets.take(holder, "a")).toBe(true);
  expect(sockets.take(holder, "a")).toBe(false);
  expect(reads).toBe(2);
});
