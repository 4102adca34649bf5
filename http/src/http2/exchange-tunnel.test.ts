/** A switch of protocols over HTTP/2, through sockets (RFC 8441). */
import { once } from "node:events";
import { expect, test } from "vitest";
import type { SwitchedStream } from "../ports.ts";
import { ErrorCode, Flag, FrameType, Setting } from "./frame.ts";
import { encodeHeaderBlock } from "./hpack/hpack-encoder.ts";
import type { RawClient } from "./testing/raw-client.ts";
import { rawFrame, uint32 } from "./testing/raw-frame.ts";
import { serveExchanges } from "./testing/serve-exchanges.ts";

const data = (id: number, text: string | Buffer, flags = 0): Buffer => rawFrame(FrameType.Data, flags, id, text);
const openWindow = (id: number, bytes: number): Buffer => rawFrame(FrameType.WindowUpdate, 0, id, uint32(bytes));
const dataOf = ({ frames }: RawClient, id: number) =>
  frames.filter(({ type, streamId }) => type === FrameType.Data && streamId === id);
const bytesOf = (client: RawClient, id: number): number =>
  dataOf(client, id).reduce((sum, { payload }) => sum + payload.length, 0);

const connect = (id: number): Buffer =>
  rawFrame(
    FrameType.Headers,
    Flag.EndHeaders,
    id,
    encodeHeaderBlock([
      ":method",
      "CONNECT",
      ":protocol",
      "websocket",
      ":scheme",
      "http",
      ":path",
      "/",
      ":authority",
      "a",
    ]),
  );

async function startTunnel() {
  const tunnels: SwitchedStream[] = [];
  const served = await serveExchanges((exchange) => {
    tunnels.push(exchange.switchProtocols("websocket", ["sec-websocket-accept", "x", "x-a", "b"]));
    return undefined;
  });
  const client = served.openFrames();
  client.send(connect(1));
  await client.frame(FrameType.Headers, 1);
  const [tunnel] = tunnels;
  if (tunnel === undefined) throw new Error("no tunnel");
  return { ...served, client, tunnel };
}

test("a tunnel is offered by a setting, and carries bytes both ways", async () => {
  const { client, tunnel, completed } = await startTunnel();
  const settings = await client.frame(FrameType.Settings);
  expect(settings.payload.includes(Buffer.from([0, Setting.EnableConnectProtocol, 0, 0, 0, 1]))).toBe(true);
  const received: string[] = [];
  tunnel.on("data", (bytes: Buffer) => received.push(bytes.toString()));
  client.send(data(1, "ping"));
  await expect.poll(() => received).toEqual(["ping"]);
  tunnel.write("pong");
  await expect.poll(() => dataOf(client, 1).map(({ payload }) => payload.toString())).toEqual(["pong"]);
  client.send(data(1, "", Flag.EndStream));
  await once(tunnel, "end");
  tunnel.end();
  await expect.poll(() => completed).toEqual([true]);
  expect(client.frames.some(({ type }) => type === FrameType.RstStream)).toBe(false);
});

test("the client may continue to send in a tunnel after the end of the server", async () => {
  const { client, tunnel, completed } = await startTunnel();
  let received = "";
  tunnel.on("data", (bytes: Buffer) => (received += bytes.toString()));
  tunnel.end("last");
  await expect.poll(() => dataOf(client, 1).at(-1)?.flags).toBe(Flag.EndStream);
  client.send(data(1, "more"));
  await expect.poll(() => received).toBe("more");
  expect(completed).toEqual([]);
  client.send(data(1, "", Flag.EndStream));
  await expect.poll(() => completed).toEqual([true]);
});

test("a tunnel is reset when the server aborts it, and closed when the client aborts it", async () => {
  const first = await startTunnel();
  first.tunnel.destroy();
  await first.client.frame(FrameType.RstStream, 1);
  await expect.poll(() => first.completed).toEqual([false]);
  const second = await startTunnel();
  const closed = once(second.tunnel, "close");
  second.client.send(rawFrame(FrameType.RstStream, 0, 1, uint32(ErrorCode.Cancel)));
  await closed;
  await expect.poll(() => second.completed).toEqual([false]);
});

test("a tunnel slows a fast client down, and waits for a slow one", async () => {
  const { client, tunnel } = await startTunnel();
  tunnel.pause();
  for (let sent = 0; sent < 12; sent++) client.send(data(1, Buffer.alloc(16_384)));
  client.send(rawFrame(FrameType.Ping, 0, 0, Buffer.alloc(8)));
  await client.frame(FrameType.Ping);
  expect(client.frames.some(({ type, streamId }) => type === FrameType.WindowUpdate && streamId === 1)).toBe(false);
  tunnel.resume();
  await client.frame(FrameType.WindowUpdate, 1);
  let isWritten = false;
  tunnel.write(Buffer.alloc(100_000), () => (isWritten = true));
  await expect.poll(() => bytesOf(client, 1)).toBe(65_535);
  expect(isWritten).toBe(false);
  client.send(openWindow(0, 100_000), openWindow(1, 100_000));
  await expect.poll(() => isWritten).toBe(true);
});

test("a tunnel emits timeout after a time without bytes", async () => {
  const { client, tunnel, advance } = await startTunnel();
  let timeouts = 0;
  tunnel.resume().setTimeout(10_000, () => timeouts++);
  await advance(9);
  client.send(data(1, "x"), rawFrame(FrameType.Ping, 0, 0, Buffer.alloc(8)));
  await client.frame(FrameType.Ping);
  await advance(9);
  expect(timeouts).toBe(0);
  await advance(1);
  expect(timeouts).toBe(1);
});
