import { once } from "node:events";
import { connect, constants } from "node:http2";
import { type AddressInfo, createServer } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import type { Downstream } from "./downstream.ts";
import { Http2Sessions } from "./http2-server.ts";

/** Connects to sessions that are idle after 50 ms; `requests` are those that have come. */
async function start() {
  const requests: Downstream[] = [];
  const events = { onDrain: () => undefined, onClose: () => undefined };
  const onRequest = (downstream: Downstream) => {
    requests.push(downstream);
    return events;
  };
  const sessions = new Http2Sessions({ onRequest, onRefused: () => undefined }, 50);
  const connection = { sourceAddress: "127.0.0.1", peer: "a client", tls: undefined };
  const server = createServer((socket) => sessions.serve(socket, connection));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  // A TCP server that listens has such an address.
  const client = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  onTestFinished(async () => {
    client.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
  return { client, requests };
}

test("a connection on which nothing passes is closed, and the client is told so (GOAWAY)", async () => {
  const { client } = await start();
  const [goaway] = await Promise.all([once(client, "goaway"), once(client, "close")]);
  expect(goaway[0]).toBe(constants.NGHTTP2_NO_ERROR);
});

test("a stream that is open on it may finish", async () => {
  const { client, requests } = await start();
  const stream = client.request({ ":path": "/" });
  const chunks: Buffer[] = [];
  stream.on("data", (chunk: Buffer) => chunks.push(chunk));
  const answered = once(stream, "close");
  await once(client, "goaway");
  requests[0]?.respond(200, [], "late");
  await answered;
  expect(Buffer.concat(chunks).toString()).toBe("late");
});
