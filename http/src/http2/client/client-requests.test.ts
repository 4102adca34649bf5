/**
 * Requests of the client of HTTP/2, through its sockets. Each case names the section of RFC 9113 that it is about,
 * unless it names another.
 */
import { once } from "node:events";
import { setImmediate as turn } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { TestBody } from "../../testing/exchanges.ts";
import { ErrorCode, Flag, FrameType, Setting } from "../frame.ts";
import {
  connectClient,
  data,
  head,
  lastData,
  lastHead,
  ping,
  receivedHeads,
  rst,
  settings,
  windowUpdate,
} from "../testing/connect-client.ts";
import { dataBytes, exchange, goAwayCode, ok, resetCodes, upload } from "../testing/exchange-with-peer.ts";
import type { ClientRequest } from "../../ports.ts";

describe("a request", () => {
  test("has its pseudo-header fields first, and names in lower case (§8.2, §8.3.1)", async () => {
    const { peer } = await exchange([lastHead(1, ok)], {
      path: "/a?b=c",
      fields: ["Accept", "x", "Host", "a.test", "X-A", "1", "X-a", "2"],
    });
    expect(receivedHeads(peer)).toEqual([
      [
        ...[":method", "GET", ":scheme", "http", ":authority", "a.test", ":path", "/a?b=c"],
        ...["accept", "x", "x-a", "1", "x-a", "2"],
      ],
    ]);
    expect(peer.got(FrameType.Headers)[0]?.flags).toBe(Flag.EndHeaders | Flag.EndStream);
  });

  test("has no field of an HTTP/1 connection, and of TE only trailers (§8.2.2)", async () => {
    const fields = ["Connection", "x", "keep-alive", "1", "transfer-encoding", "chunked", "upgrade", "h2c"];
    const { peer } = await exchange([lastHead(1, ok)], { fields: [...fields, "te", "gzip", "TE", "trailers"] });
    expect(receivedHeads(peer)[0]?.slice(6)).toEqual(["te", "trailers"]);
  });

  test.each([
    ["a method that is not a token", { method: "G ET" }],
    ["a path with a space", { path: "/a b" }],
    ["an empty path", { path: "" }],
    ["a name that is not a token", { fields: ["a b", "c"] }],
    ["a value with a line break", { fields: ["a", "b\r\nc: d"] }],
    ["a value outside of ISO 8859-1", { fields: ["a", "€"] }],
    ["a host with a line break", { fields: ["host", "a\nb"] }],
    ["two hosts", { fields: ["host", "a", "Host", "b"] }],
    ["two lengths", { fields: ["content-length", "0", "content-length", "0"] }],
    ["a length that is not a number", { fields: ["content-length", "1x"] }],
    ["another length than its body", { fields: ["content-length", "1"], body: Buffer.from("ab") }],
    ["the method CONNECT", { method: "CONNECT" }],
  ])("with %s is not sent (§8.2.1, §8.3.1)", async (_what, request) => {
    const { peer, send } = await connectClient();
    expect(() => send(request)).toThrow(TypeError);
    peer.send(ping());
    await peer.until(FrameType.Ping);
    expect(peer.got(FrameType.Headers)).toEqual([]);
  });

  test("with a short body is one HEADERS and one DATA, with its length (§8.1)", async () => {
    const { peer } = await exchange([lastHead(1, ok)], upload(Buffer.from("body")));
    expect(receivedHeads(peer)[0]?.slice(-2)).toEqual(["content-length", "4"]);
    expect(peer.got(FrameType.Data)).toMatchObject([{ flags: Flag.EndStream, payload: Buffer.from("body") }]);
  });

  test.each(["POST", "PUT", "PATCH"])("%s without a body has the length 0 (RFC 9110 §8.6)", async (method) => {
    const { peer } = await exchange([lastHead(1, ok)], { method });
    expect(receivedHeads(peer)[0]?.slice(-2)).toEqual(["content-length", "0"]);
  });

  test("with a head of more than a frame continues in CONTINUATION (§6.10)", async () => {
    const { peer } = await exchange([lastHead(1, ok)], { fields: ["x", "y".repeat(40_000)] });
    expect(peer.got(FrameType.Headers)[0]?.flags).toBe(Flag.EndStream);
    expect(peer.got(FrameType.Continuation).map(({ flags }) => flags)).toEqual([0, Flag.EndHeaders]);
  });

  test("waits while the server accepts no stream (§5.1.2), and goes on when it does (§6.5.2)", async () => {
    const { peer, send } = await connectClient(settings([Setting.MaxConcurrentStreams, 1]));
    const first = send();
    const second = send();
    const third = send();
    expect([first, second, third].map(({ sentHeads }) => sentHeads())).toEqual([1, 0, 0]);
    await peer.until(FrameType.Headers);
    peer.send(lastHead(1, ok));
    await peer.until(FrameType.Headers, 2);
    peer.send(settings([Setting.MaxConcurrentStreams, 100]));
    await peer.until(FrameType.Headers, 3);
    peer.send(settings([Setting.MaxConcurrentStreams, 0]), lastHead(3, ok), lastHead(5, ok));
    await Promise.all([second.over, third.over]);
    const { received, exchange: waiting, sentHeads } = send();
    await turn();
    waiting.abort();
    peer.send(settings([Setting.MaxConcurrentStreams, 5]), ping());
    await peer.until(FrameType.Ping);
    expect([sentHeads(), received.failure, peer.got(FrameType.Headers).length]).toEqual([0, undefined, 3]);
  });

  test("that is aborted is reset with CANCEL, without an event (§5.4.2)", async () => {
    const { peer, send } = await connectClient();
    const { exchange: sent, received } = send();
    await peer.until(FrameType.Headers);
    sent.abort();
    await peer.until(FrameType.RstStream);
    peer.send(head(1, ok), lastData(1, "late"), ping());
    await peer.until(FrameType.Ping);
    expect(resetCodes(peer)).toEqual([ErrorCode.Cancel]);
    expect(received).toMatchObject({ status: undefined, body: "", failure: undefined });
  });
});

describe("an upload", () => {
  test("sends its head before its first byte, and its trailers at the end (§8.1)", async () => {
    const { peer, send } = await connectClient();
    const body = new TestBody();
    send(upload(body));
    await peer.until(FrameType.Headers);
    expect(peer.got(FrameType.Data)).toEqual([]);
    body.receiver?.onData(Buffer.from("one"));
    await peer.until(FrameType.Data);
    body.receiver?.onEnd(["X-Sum", "1"]);
    const { flags } = await peer.until(FrameType.Headers, 2);
    expect(flags).toBe(Flag.EndHeaders | Flag.EndStream);
    expect(receivedHeads(peer)[1]).toEqual(["x-sum", "1"]);
  });

  test("with trailers that cannot be sent is reset (§8.2.1)", async () => {
    const { peer, send } = await connectClient();
    const body = new TestBody();
    const { received } = send(upload(body));
    await peer.until(FrameType.Headers);
    body.receiver?.onEnd(["x", "a\nb"]);
    await peer.until(FrameType.RstStream);
    expect(received.failure?.kind).toBe("aborted");
  });

  test("is held back by the window of its stream (§5.2, §6.9), and tiny ones let it trickle", async () => {
    const { peer, send } = await connectClient(settings([Setting.InitialWindowSize, 3]));
    const body = new TestBody();
    send(upload(body));
    await peer.until(FrameType.Headers);
    body.receiver?.onData(Buffer.from("abcdefgh"));
    expect(body.isPaused).toBe(true);
    await peer.until(FrameType.Data);
    for (let byte = 0; byte < 5; byte++) {
      expect([dataBytes(peer, 1), body.isPaused]).toEqual([3 + byte, true]);
      peer.send(windowUpdate(1, 1));
      await peer.until(FrameType.Data, byte + 2);
    }
    await expect.poll(() => body.isPaused).toBe(false);
    body.receiver?.onEnd([]);
    await peer.until(FrameType.Data, 7);
    expect(peer.got(FrameType.Data).at(-1)).toMatchObject({ flags: Flag.EndStream, payload: Buffer.alloc(0) });
  });

  test("is held back by a window of zero, until SETTINGS open it (§6.9.2)", async () => {
    const { peer, send } = await connectClient(settings([Setting.InitialWindowSize, 0]));
    send(upload(Buffer.from("body")));
    await peer.until(FrameType.Headers);
    peer.send(ping());
    await peer.until(FrameType.Ping);
    expect(peer.got(FrameType.Data)).toEqual([]);
    peer.send(settings([Setting.InitialWindowSize, 100]));
    expect((await peer.until(FrameType.Data)).payload.toString()).toBe("body");
  });

  test("is held back by a window that SETTINGS make negative (§6.9.2)", async () => {
    const { peer, send } = await connectClient(settings([Setting.InitialWindowSize, 10]));
    send(upload(Buffer.alloc(30)));
    await peer.until(FrameType.Data);
    peer.send(settings([Setting.InitialWindowSize, 0]), windowUpdate(1, 10), ping());
    await peer.until(FrameType.Ping);
    expect(dataBytes(peer, 1)).toBe(10);
    peer.send(windowUpdate(1, 5));
    await expect.poll(() => dataBytes(peer, 1)).toBe(15);
  });

  test("does not delay others, which share the window of the connection (§5.2.2)", async () => {
    const { peer, send } = await connectClient(settings([Setting.InitialWindowSize, 1_000_000]));
    send(upload(Buffer.alloc(100_000)));
    send(upload(Buffer.alloc(100_000)));
    const other = send();
    await peer.until(FrameType.Headers, 3);
    peer.send(lastHead(5, ok));
    await other.over;
    await expect.poll(() => dataBytes(peer, 1) + dataBytes(peer, 3)).toBe(65_535);
    peer.send(windowUpdate(0, 200_000));
    await expect.poll(() => [dataBytes(peer, 1), dataBytes(peer, 3)]).toEqual([100_000, 100_000]);
    expect(peer.frames.every(({ payload }) => payload.length <= 16_384)).toBe(true);
  });

  test("whose source fails is reset with CANCEL", async () => {
    const { peer, send } = await connectClient();
    const body = new TestBody();
    const { received } = send(upload(body));
    await peer.until(FrameType.Headers);
    body.receiver?.onAborted();
    await peer.until(FrameType.RstStream);
    expect([resetCodes(peer), received.failure?.kind]).toEqual([[ErrorCode.Cancel], "aborted"]);
  });

  test.each([
    ["longer", "abcd"],
    ["shorter", "a"],
  ])("that is %s than its content-length is reset (§8.1.1)", async (_what, text) => {
    const { peer, send } = await connectClient();
    const body = new TestBody();
    const { received } = send(upload(body, ["content-length", "3"]));
    await peer.until(FrameType.Headers);
    body.receiver?.onData(Buffer.from(text));
    body.receiver?.onEnd([]);
    await peer.until(FrameType.RstStream);
    expect([received.failure?.kind, body.isCancelled]).toEqual(["reset", true]);
  });

  test("is cancelled when the response is complete before it (§8.1)", async () => {
    const { peer, send, client } = await connectClient();
    const body = new TestBody();
    const { received, over } = send(upload(body));
    await peer.until(FrameType.Headers);
    body.receiver?.onData(Buffer.alloc(100_000));
    peer.send(head(1, [":status", "413"]), lastData(1, "too long"), rst(1, ErrorCode.NoError), ping());
    await over;
    expect(received).toMatchObject({ status: 413, body: "too long", failure: undefined });
    await peer.until(FrameType.Ping);
    expect([resetCodes(peer), body.isCancelled, client.isAvailable]).toEqual([[ErrorCode.Cancel], true, true]);
  });

  test("may end after the head of its response (§8.1)", async () => {
    const { peer, send } = await connectClient();
    const body = new TestBody();
    const { received, over } = send(upload(body));
    await peer.until(FrameType.Headers);
    peer.send(head(1, ok));
    await expect.poll(() => received.status).toBe(200);
    body.receiver?.onData(Buffer.from("more"));
    body.receiver?.onEnd([]);
    await peer.until(FrameType.Data, 2);
    peer.send(lastData(1, "done"));
    await over;
    expect([received.body, resetCodes(peer)]).toEqual(["done", []]);
  });

  test("that waits for a window is dropped at once when it is aborted", async () => {
    const { peer, send } = await connectClient();
    const body = new TestBody();
    const { exchange: sent } = send(upload(body));
    await peer.until(FrameType.Headers);
    body.receiver?.onData(Buffer.alloc(100_000));
    sent.abort();
    await peer.until(FrameType.RstStream);
    peer.send(windowUpdate(0, 100_000), windowUpdate(1, 100_000), ping());
    await peer.until(FrameType.Ping);
    expect([dataBytes(peer, 1), body.isCancelled]).toEqual([65_535, true]);
  });
});

describe("extended CONNECT (RFC 8441)", () => {
  const connectProtocol = settings([Setting.EnableConnectProtocol, 1]);
  const webSocket: Partial<ClientRequest> = {
    fields: ["Host", "a", "Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==", "x-a", "b"],
    upgrade: "websocket",
  };

  async function openTunnel() {
    const connected = await connectClient(connectProtocol);
    const { received, over, exchange: sent } = connected.send(webSocket);
    await connected.peer.until(FrameType.Headers);
    connected.peer.send(head(1, [...ok, "x-b", "c"]));
    await over;
    const tunnel = received.switched;
    if (tunnel === undefined) throw new Error("no tunnel");
    return { ...connected, received, exchange: sent, tunnel };
  }

  test("has the protocol instead of the fields of HTTP/1, and proves that the key was read (§4, §5)", async () => {
    const { peer, received } = await openTunnel();
    expect(receivedHeads(peer)).toEqual([
      [
        ...[":method", "CONNECT", ":scheme", "http", ":authority", "a", ":path", "/", ":protocol", "websocket"],
        ...["x-a", "b"],
      ],
    ]);
    expect(peer.got(FrameType.Headers)[0]?.flags).toBe(Flag.EndHeaders);
    // The example of RFC 6455 §1.3.
    expect(received.fields).toEqual(["x-b", "c", "sec-websocket-accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="]);
  });

  test("is unprocessed by a server that does not offer it (§3)", async () => {
    const { peer, send } = await connectClient();
    const { received, over } = send(webSocket);
    await over;
    expect(received.failure?.kind).toBe("unprocessed");
    peer.send(ping());
    await peer.until(FrameType.Ping);
    expect(peer.got(FrameType.Headers)).toEqual([]);
  });

  test("that the server rejects has a normal response (§5)", async () => {
    const { peer, send } = await connectClient(connectProtocol);
    const { received, over } = send(webSocket);
    await peer.until(FrameType.Headers);
    peer.send(head(1, [":status", "403", "content-length", "2"]), lastData(1, "no"));
    await over;
    expect(received).toMatchObject({ status: 403, body: "no", switched: undefined });
  });

  test("carries bytes both ways, and each side ends on its own (§5)", async () => {
    const { peer, tunnel, client } = await openTunnel();
    let text = "";
    tunnel.on("data", (bytes: Buffer) => (text += bytes.toString()));
    tunnel.write("ask");
    expect((await peer.until(FrameType.Data)).payload.toString()).toBe("ask");
    peer.send(lastData(1, "response"));
    await once(tunnel, "end");
    expect(text).toBe("response");
    tunnel.end("late");
    await expect.poll(() => peer.got(FrameType.Data).at(-1)?.flags).toBe(Flag.EndStream);
    expect([dataBytes(peer, 1), resetCodes(peer), client.isAvailable]).toEqual([7, [], true]);
  });

  test("is reset when the client aborts it, and closed when the server aborts it", async () => {
    const first = await openTunnel();
    first.tunnel.destroy();
    await first.peer.until(FrameType.RstStream);
    const second = await openTunnel();
    const closed = once(second.tunnel, "close");
    second.peer.send(rst(1, ErrorCode.Cancel));
    await closed;
    expect(second.received.failure).toBeUndefined();
  });

  test("waits for a slow server, and slows a fast one down (§5)", async () => {
    const { peer, tunnel } = await openTunnel();
    let isWritten = false;
    tunnel.write(Buffer.alloc(100_000), () => (isWritten = true));
    await expect.poll(() => dataBytes(peer, 1)).toBe(65_535);
    expect(isWritten).toBe(false);
    peer.send(windowUpdate(0, 100_000), windowUpdate(1, 100_000));
    await expect.poll(() => isWritten).toBe(true);
    for (let sent = 0; sent < 12; sent++) peer.send(data(1, Buffer.alloc(16_384)));
    peer.send(ping());
    await peer.until(FrameType.Ping);
    expect(peer.got(FrameType.WindowUpdate, 1)).toEqual([]);
    tunnel.resume();
    await peer.until(FrameType.WindowUpdate, 1, 1);
  });

  test("cannot be revoked (§3)", async () => {
    const { peer } = await connectClient(connectProtocol);
    peer.send(settings([Setting.EnableConnectProtocol, 0]));
    expect(await goAwayCode(peer)).toBe(ErrorCode.ProtocolError);
  });
});
