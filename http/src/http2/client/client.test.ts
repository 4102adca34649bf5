/** The client of HTTP/2, through its sockets. Each case names the section of RFC 9113 that it is about, unless it names another. */
import { once } from "node:events";
import { setImmediate as turn } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import type { ClientRequest } from "../../ports.ts";
import { TestBody } from "../../testing/exchanges.ts";
import { ErrorCode, Flag, FrameType, Setting } from "../frame.ts";
import { encodeHeaderBlock } from "../hpack/hpack-encoder.ts";
import {
  connectClient,
  data,
  goAway,
  head,
  lastData,
  lastHead,
  ping,
  receivedHeads,
  rst,
  settings,
  windowUpdate,
} from "../testing/connect-client.ts";
import { rawFrame } from "../testing/raw-frame.ts";
import type { RawPeer } from "../testing/raw-server.ts";

const ok = [":status", "200"];
const upload = (body: ClientRequest["body"], fields: readonly string[] = ["Host", "a"]): Partial<ClientRequest> => ({
  method: "POST",
  fields,
  body,
});

/** Sends a request, responds with `frames`, and returns what the client received. */
async function exchange(frames: readonly Buffer[], request: Partial<ClientRequest> = {}) {
  const connected = await connectClient();
  const { received, over, exchange: sent } = connected.send(request);
  await connected.peer.until(FrameType.Headers);
  connected.peer.send(...frames);
  await over;
  return { ...connected, received, exchange: sent };
}

const dataBytes = (peer: RawPeer, id: number): number =>
  peer.got(FrameType.Data, id).reduce((sum, { payload }) => sum + payload.length, 0);
const resetCodes = (peer: RawPeer): readonly number[] =>
  peer.got(FrameType.RstStream).map(({ payload }) => payload.readUInt32BE(0));
const goAwayCode = async (peer: RawPeer): Promise<number> =>
  (await peer.until(FrameType.GoAway)).payload.readUInt32BE(4);

describe("a connection", () => {
  test("begins with the preface and SETTINGS that disable push (§3.4, §6.5.2)", async () => {
    const { peer } = await connectClient();
    const { payload } = await peer.until(FrameType.Settings);
    expect(payload.includes(Buffer.from([0, Setting.EnablePush, 0, 0, 0, 0]))).toBe(true);
    await peer.until(FrameType.WindowUpdate);
  });

  test("sends no request before the SETTINGS of the server (§3.4)", async () => {
    const { peer, state } = await connectClient(Buffer.alloc(0));
    await peer.until(FrameType.Settings);
    expect(state.isOpen).toBe(false);
    peer.send(settings());
    await expect.poll(() => state.isOpen).toBe(true);
  });

  test("fails if the server speaks HTTP/1 (§3.4)", async () => {
    const { state } = await connectClient(Buffer.from("HTTP/1.1 400 Bad Request\r\n\r\n"));
    await expect.poll(() => state.isClosed).toBe(true);
    expect([state.isOpen, state.reason]).toEqual([false, expect.stringContaining("violates HTTP/2")]);
  });

  test("acknowledges SETTINGS and PING (§6.5.3, §6.7)", async () => {
    const { peer } = await connectClient();
    peer.send(ping());
    expect((await peer.until(FrameType.Ping)).flags).toBe(Flag.Ack);
    expect(peer.got(FrameType.Settings).map(({ flags }) => flags)).toEqual([0, Flag.Ack]);
  });

  test("carries the requests of one turn in one write", async () => {
    const { peer, send } = await connectClient();
    for (let sent = 0; sent < 5; sent++) send();
    await peer.until(FrameType.Headers, 5);
    expect(peer.chunks.filter((chunk) => chunk.some(({ type }) => type === FrameType.Headers))).toHaveLength(1);
  });

  test("says goodbye when it is closed, after the last response (§6.8)", async () => {
    const { peer, client, send, state } = await connectClient();
    const { received, over } = send();
    await peer.until(FrameType.Headers);
    client.close();
    expect([client.isAvailable, state.reason]).toEqual([false, "the connection is no longer used"]);
    peer.send(head(1, ok), lastData(1, "rest"));
    await over;
    expect(received.body).toBe("rest");
    expect(await goAwayCode(peer)).toBe(ErrorCode.NoError);
    await expect.poll(() => state.isClosed).toBe(true);
  });

  test("that is destroyed fails its requests, and takes no others", async () => {
    const { peer, client, send } = await connectClient();
    const { received } = send();
    await peer.until(FrameType.Headers);
    client.destroy();
    expect(received.failure).toEqual({ kind: "reset", message: "the connection was closed" });
    const { received: late, over } = send();
    expect(late.failure).toBeUndefined();
    await over;
    expect(late.failure?.kind).toBe("unprocessed");
  });

  test("that breaks fails its requests, which the server may have processed", async () => {
    const { peer, send } = await connectClient();
    const { received, over } = send();
    await peer.until(FrameType.Headers);
    peer.socket.resetAndDestroy();
    await over;
    expect(received.failure?.kind).toBe("reset");
  });

  test("whose server ends within a response fails it", async () => {
    const { peer, send } = await connectClient();
    const { received, over } = send();
    await peer.until(FrameType.Headers);
    peer.send(head(1, ok), data(1, "part"));
    peer.socket.end();
    await over;
    expect(received).toMatchObject({ body: "part", failure: { kind: "reset" } });
  });

  test("whose identifiers are used up takes no more requests (§5.1.1)", async () => {
    const { peer, send, client, state } = await connectClient(settings(), { maxStreamId: 3 });
    const first = send();
    const last = send();
    expect(client.isAvailable).toBe(false);
    await peer.until(FrameType.Headers, 2);
    peer.send(lastHead(1, ok), lastHead(3, ok));
    await Promise.all([first.over, last.over]);
    expect([first, last].map(({ received }) => received.status)).toEqual([200, 200]);
    await expect.poll(() => state.isClosed).toBe(true);
  });
});

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

  test("is given up when the response is complete before it (§8.1)", async () => {
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

describe("a response", () => {
  test("has its fields, body and trailers in order (§8.1)", async () => {
    const { received } = await exchange([
      head(1, [...ok, "a", "1", "a", "2"]),
      data(1, "one "),
      lastData(1, ""),
      ping(),
    ]);
    expect(received).toMatchObject({ status: 200, fields: ["a", "1", "a", "2"], body: "one ", trailers: [] });
    const { received: other } = await exchange([head(1, ok), data(1, "x"), lastHead(1, ["grpc-status", "0"])]);
    expect(other).toMatchObject({ body: "x", trailers: ["grpc-status", "0"] });
  });

  test("has interim heads before the final one (§8.1, RFC 9110 §15.2)", async () => {
    const { received } = await exchange([
      head(1, [":status", "100"]),
      head(1, [":status", "103", "link", "</a>"]),
      lastHead(1, ok),
    ]);
    expect(received.interim).toEqual([
      [100, []],
      [103, ["link", "</a>"]],
    ]);
    expect(received.status).toBe(200);
  });

  test.each([
    ["HEAD", "200", ["content-length", "5"]],
    ["GET", "304", ["content-length", "5"]],
    ["GET", "204", []],
  ])("to %s with %s has no body (§8.1.1, RFC 9110 §6.4.1)", async (method, status, fields) => {
    const { received } = await exchange([lastHead(1, [":status", status, ...fields])], { method });
    expect(received).toMatchObject({ status: Number(status), fields, trailers: [] });
    const { received: withBody } = await exchange([head(1, [":status", status, ...fields]), lastData(1, "hello")], {
      method,
    });
    expect(withBody.failure?.kind).toBe("reset");
  });

  test.each([
    ["no :status", ["a", "b"]],
    ["a :status that is not a number", [":status", "2xx"]],
    ["a :status of four digits", [":status", "2000"]],
    ["two :status", [":status", "200", ":status", "200"]],
    ["a late :status", ["a", "b", ":status", "200"]],
    ["a pseudo-header field of requests", [":path", "/", ":status", "200"]],
    ["the status 101", [":status", "101"]],
    ["a name in upper case", [...ok, "A", "b"]],
    ["an empty name", [...ok, "", "b"]],
    ["a name with a space", [...ok, "a b", "c"]],
    ["a value with a line feed", [...ok, "a", "b\nc"]],
    ["a value with a carriage return", [...ok, "a", "b\rc"]],
    ["a value with NUL", [...ok, "a", "b\0c"]],
    ["a value with a control character", [...ok, "a", "b\x01c"]],
    ["a value with DEL", [...ok, "a", "b\x7fc"]],
    ["a value that begins with a space", [...ok, "a", " b"]],
    ["a value that ends with a tab", [...ok, "a", "b\t"]],
    ["connection", [...ok, "connection", "close"]],
    ["transfer-encoding", [...ok, "transfer-encoding", "chunked"]],
    ["keep-alive", [...ok, "keep-alive", "timeout=5"]],
    ["upgrade", [...ok, "upgrade", "h2c"]],
    ["two lengths", [...ok, "content-length", "0", "content-length", "0"]],
    ["a list of lengths", [...ok, "content-length", "0, 0"]],
    ["a length with a sign", [...ok, "content-length", "+0"]],
  ])("with %s is malformed (§8.1.1, §8.2, §8.3)", async (_what, fields) => {
    const { received, peer, client } = await exchange([lastHead(1, fields)]);
    expect(received).toMatchObject({ status: undefined, failure: { kind: "reset" } });
    await peer.until(FrameType.RstStream);
    expect(resetCodes(peer)).toEqual([ErrorCode.ProtocolError]);
    expect(client.isAvailable).toBe(true);
  });

  test.each([
    ["a body without a head", [lastData(1, "x")]],
    ["two final heads", [head(1, ok), head(1, ok)]],
    ["an interim head that ends it", [lastHead(1, [":status", "103"])]],
    ["an interim head after the final one", [head(1, ok), head(1, [":status", "103"])]],
    ["trailers that do not end it", [head(1, ok), head(1, ["a", "b"])]],
    ["trailers with :status", [head(1, ok), lastHead(1, ok)]],
    ["trailers with content-length", [head(1, ok), lastHead(1, ["content-length", "0"])]],
    ["trailers with a name in upper case", [head(1, ok), lastHead(1, ["A", "b"])]],
    ["a longer body than its content-length", [head(1, [...ok, "content-length", "1"]), data(1, "ab")]],
    ["a shorter body than its content-length", [head(1, [...ok, "content-length", "3"]), lastData(1, "ab")]],
    [
      "trailers before its content-length",
      [head(1, [...ok, "content-length", "3"]), data(1, "ab"), lastHead(1, ["a", "b"])],
    ],
    ["a content-length and no body", [lastHead(1, [...ok, "content-length", "3"])]],
  ])("with %s is malformed (§8.1)", async (_what, frames) => {
    const { received, peer } = await exchange(frames);
    expect(received.failure?.kind).toBe("reset");
    await peer.until(FrameType.RstStream);
    expect(resetCodes(peer)).toEqual([ErrorCode.ProtocolError]);
  });

  test("with padding has the bytes without it (§6.1)", async () => {
    const padded = rawFrame(FrameType.Data, Flag.EndStream | Flag.Padded, 1, Buffer.from("\x03body\0\0\0"));
    expect((await exchange([head(1, ok), padded])).received.body).toBe("body");
  });

  test("in CONTINUATION frames is read as a whole (§6.10)", async () => {
    const block = encodeHeaderBlock([...ok, "a", "b"]);
    const parts = [
      rawFrame(FrameType.Headers, Flag.EndStream, 1, block.subarray(0, 1)),
      rawFrame(FrameType.Continuation, 0, 1, block.subarray(1, 2)),
      rawFrame(FrameType.Continuation, Flag.EndHeaders, 1, block.subarray(2)),
    ];
    expect((await exchange(parts)).received.fields).toEqual(["a", "b"]);
  });

  test("with a header block of more than 64 KiB ends the connection (§10.5.1)", async () => {
    const { peer, send } = await connectClient();
    const { received, over } = send();
    await peer.until(FrameType.Headers);
    const part = encodeHeaderBlock(["x", "y".repeat(16_000)]);
    peer.send(rawFrame(FrameType.Headers, 0, 1, part));
    for (let sent = 0; sent < 4; sent++) peer.send(rawFrame(FrameType.Continuation, 0, 1, part));
    await over;
    expect([received.failure?.kind, await goAwayCode(peer)]).toEqual(["reset", ErrorCode.EnhanceYourCalm]);
  });

  test("is held back while its receiver has paused it, and its window stays closed (§5.2)", async () => {
    const { peer, send } = await connectClient(settings(), { streamWindowBytes: 1_000 });
    const { exchange: sent, received, over } = send();
    await peer.until(FrameType.Headers);
    sent.pause();
    peer.send(head(1, ok), data(1, "x".repeat(900)), ping());
    await peer.until(FrameType.Ping);
    expect([received.body, peer.got(FrameType.WindowUpdate, 1)]).toEqual(["", []]);
    sent.resume();
    expect(received.body).toBe("");
    const update = await peer.until(FrameType.WindowUpdate, 1, 1);
    expect([received.body.length, update.payload.readUInt32BE(0)]).toEqual([900, 900]);
    sent.pause();
    peer.send(lastData(1, "end"), ping());
    await peer.until(FrameType.Ping, 2);
    expect([received.body.length, received.trailers]).toEqual([900, undefined]);
    sent.resume();
    await over;
    expect([received.body.length, received.trailers]).toEqual([903, []]);
  });

  test("that its receiver pauses delays no other, whatever it holds (§5.2.2)", async () => {
    const { peer, send } = await connectClient(settings(), {
      streamWindowBytes: 60_000,
      connectionWindowBytes: 65_535,
    });
    const { exchange: sent } = send();
    const other = send();
    await peer.until(FrameType.Headers, 2);
    sent.pause();
    const part = Buffer.alloc(15_000);
    peer.send(head(1, ok), data(1, part), data(1, part), data(1, part), data(1, part));
    await peer.until(FrameType.WindowUpdate, 1, 0);
    peer.send(head(3, ok), data(3, part), data(3, part), lastData(3, part));
    await other.over;
    expect(other.received.body).toHaveLength(45_000);
  });

  test("that is complete is delivered after the end of the connection", async () => {
    const { peer, send, state } = await connectClient();
    const { exchange: sent, received, over } = send();
    await peer.until(FrameType.Headers);
    sent.pause();
    peer.send(head(1, ok), lastData(1, "held"));
    peer.socket.end();
    await expect.poll(() => state.isClosed).toBe(true);
    expect(received.failure).toBeUndefined();
    sent.resume();
    await over;
    expect(received).toMatchObject({ body: "held", trailers: [], failure: undefined });
  });

  test("may be aborted by its receiver, at its head and at a part", async () => {
    for (const event of ["onHead", "onData"] as const) {
      const { peer, send } = await connectClient();
      const { exchange: sent, received } = send({}, 0, { [event]: () => sent.abort() });
      await peer.until(FrameType.Headers);
      peer.send(head(1, ok), data(1, "one"), lastData(1, "two"), ping());
      await peer.until(FrameType.Ping);
      expect([received.trailers, received.failure, resetCodes(peer)]).toEqual([
        undefined,
        undefined,
        [ErrorCode.Cancel],
      ]);
    }
  });
});

describe("a stream that the server resets", () => {
  test("with REFUSED_STREAM is unprocessed (§8.7)", async () => {
    const { received } = await exchange([rst(1, ErrorCode.RefusedStream)]);
    expect(received.failure?.kind).toBe("unprocessed");
  });

  test("with REFUSED_STREAM after its head may have been processed", async () => {
    const { received } = await exchange([head(1, ok), rst(1, ErrorCode.RefusedStream)]);
    expect(received.failure?.kind).toBe("reset");
  });

  test.each([ErrorCode.NoError, ErrorCode.InternalError, ErrorCode.Cancel, 0xd, 0xffff])(
    "with the code %i has no complete response (§7)",
    async (code) => {
      const { received, client } = await exchange([head(1, ok), data(1, "part"), rst(1, code)]);
      expect(received).toMatchObject({ body: "part", trailers: undefined, failure: { kind: "reset" } });
      expect(client.isAvailable).toBe(true);
    },
  );

  test("after the end of its response changes nothing (§8.1)", async () => {
    const { received, client } = await exchange([lastHead(1, ok), rst(1, ErrorCode.NoError)]);
    expect([received.failure, client.isAvailable]).toEqual([undefined, true]);
  });
});

describe("GOAWAY", () => {
  test("returns the requests after its last stream, finishes the others, and ends the connection (§6.8)", async () => {
    const { peer, send, client, state } = await connectClient();
    const accepted = send();
    const rejected = send();
    await peer.until(FrameType.Headers, 2);
    peer.send(goAway(1));
    await rejected.over;
    expect(rejected.received.failure?.kind).toBe("unprocessed");
    expect([client.isAvailable, state.reason]).toEqual([false, "the server is closing the connection"]);
    peer.send(head(1, ok), lastData(1, "done"));
    await accepted.over;
    expect(accepted.received.body).toBe("done");
    await expect.poll(() => state.isClosed).toBe(true);
  });

  test("may come twice, first to stop new requests (§6.8)", async () => {
    const { peer, send } = await connectClient();
    const [first, second] = [send(), send()];
    await peer.until(FrameType.Headers, 2);
    peer.send(goAway(2 ** 31 - 1), ping());
    await peer.until(FrameType.Ping);
    expect(second.received.failure).toBeUndefined();
    peer.send(goAway(1), lastHead(1, ok));
    await Promise.all([first.over, second.over]);
    expect([first.received.status, second.received.failure?.kind]).toEqual([200, "unprocessed"]);
  });

  test("returns the requests that wait for a stream (§6.8)", async () => {
    const { peer, send } = await connectClient(settings([Setting.MaxConcurrentStreams, 1]));
    send();
    const waiting = send();
    await peer.until(FrameType.Headers);
    peer.send(goAway(1));
    await waiting.over;
    expect(waiting.received.failure?.kind).toBe("unprocessed");
  });

  test("with an error says so (§6.8)", async () => {
    const { peer, state } = await connectClient();
    peer.send(goAway(0, ErrorCode.EnhanceYourCalm));
    await expect.poll(() => state.reason).toBe("the server closed the connection with error code 11");
  });
});

describe("a timeout", () => {
  test("ends a request without progress, and the server must acknowledge a PING (§6.7)", async () => {
    const { peer, send, pass, client, state } = await connectClient(settings(), { pingTimeoutMs: 3_000 });
    const { received } = send({}, 2_000);
    await peer.until(FrameType.Headers);
    await pass(2);
    expect(received.failure).toBeUndefined();
    await pass(1);
    expect(received.failure).toEqual({ kind: "timeout", message: "the server has sent nothing for 2000 ms" });
    expect(client.isAvailable).toBe(false);
    await peer.until(FrameType.Ping);
    expect(resetCodes(peer)).toEqual([ErrorCode.Cancel]);
    await pass(3);
    expect(state.reason).toBe("the server does not acknowledge a ping");
  });

  test("leaves the connection to others once the PING is acknowledged", async () => {
    const { peer, send, pass, client } = await connectClient();
    send({}, 1_000);
    await peer.until(FrameType.Headers);
    await pass(2);
    await peer.until(FrameType.Ping);
    peer.send(ping(Flag.Ack));
    await expect.poll(() => client.isAvailable).toBe(true);
  });

  test("does not run while bytes arrive, nor while the receiver or the source is the slow one", async () => {
    const { peer, send, pass } = await connectClient();
    const slow = send({}, 1_000);
    const body = new TestBody();
    const silent = send(upload(body), 1_000);
    const paused = send({}, 1_000);
    await peer.until(FrameType.Headers, 3);
    paused.exchange.pause();
    peer.send(head(1, ok));
    for (let part = 1; part <= 4; part++) {
      peer.send(data(1, "x"));
      await expect.poll(() => slow.received.body.length).toBe(part);
      await pass(1);
    }
    expect([slow, silent, paused].map(({ received }) => received.failure)).toEqual([undefined, undefined, undefined]);
    body.receiver?.onEnd([]);
    paused.exchange.resume();
    await pass(2);
    expect([slow, silent, paused].map(({ received }) => received.failure?.kind)).toEqual(Array(3).fill("timeout"));
  });

  test("runs while the server does not read an upload, and not while it reads slowly", async () => {
    const { peer, send, pass } = await connectClient(settings([Setting.InitialWindowSize, 1]));
    const { received } = send(upload(Buffer.alloc(10)), 1_000);
    await peer.until(FrameType.Data);
    for (let byte = 2; byte < 5; byte++) {
      peer.send(windowUpdate(1, 1));
      await peer.until(FrameType.Data, byte);
      await pass(1);
    }
    expect(received.failure).toBeUndefined();
    await pass(2);
    expect(received.failure?.kind).toBe("timeout");
  });

  test("of a silent server is found by one PING, until it responds again", async () => {
    const { client, peer, send, pass, state } = await connectClient(settings(), { silenceMs: 5_000 });
    await pass(10);
    expect(peer.got(FrameType.Ping)).toEqual([]);
    const { received } = send();
    await peer.until(FrameType.Headers);
    await pass(5);
    await peer.until(FrameType.Ping);
    peer.send(ping(Flag.Ack));
    await expect.poll(() => client.isAvailable).toBe(true);
    await pass(20);
    expect(peer.got(FrameType.Ping)).toHaveLength(1);
    peer.send(head(1, ok));
    await expect.poll(() => received.status).toBe(200);
    await pass(5);
    await peer.until(FrameType.Ping, 2);
    await pass(20);
    expect(state.reason).toBe("the server does not acknowledge a ping");
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

  test("that the server declines has a normal response (§5)", async () => {
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

  test("is reset when the client breaks it off, and closed when the server does", async () => {
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

describe("a hostile server", () => {
  const block = encodeHeaderBlock(ok);
  const { ProtocolError, FlowControlError, FrameSizeError, CompressionError, EnhanceYourCalm } = ErrorCode;

  test.each([
    ["PUSH_PROMISE (§6.6)", ProtocolError, [rawFrame(FrameType.PushPromise, Flag.EndHeaders, 1, Buffer.alloc(8))]],
    ["a frame on a stream that was never opened (§5.1)", ProtocolError, [data(3, "x")]],
    ["a frame on a stream of its own (§5.1.1)", ProtocolError, [head(2, ok)]],
    ["DATA of no stream (§6.1)", ProtocolError, [data(0, "x")]],
    ["a frame within a header block (§4.3)", ProtocolError, [rawFrame(FrameType.Headers, 0, 1, block), ping()]],
    ["CONTINUATION without a block (§6.10)", ProtocolError, [rawFrame(FrameType.Continuation, 0, 1, block)]],
    ["a frame above the maximum size (§4.2)", FrameSizeError, [data(1, Buffer.alloc(16_385))]],
    ["padding above its frame (§6.1)", ProtocolError, [data(1, "\xffab", Flag.Padded)]],
    ["a broken header block (§4.3)", CompressionError, [rawFrame(FrameType.Headers, Flag.EndHeaders, 1, "\xff\xff")]],
    ["an index outside of the table (RFC 7541 §2.3.3)", CompressionError, [rawFrame(1, Flag.EndHeaders, 1, "\xfe")]],
    ["SETTINGS of a wrong size (§6.5)", FrameSizeError, [rawFrame(FrameType.Settings, 0, 0, "abc")]],
    ["an invalid setting (§6.5.2)", FlowControlError, [settings([Setting.InitialWindowSize, 2 ** 31])]],
    ["push in its SETTINGS (§6.5.2)", ProtocolError, [settings([Setting.EnablePush, 1])]],
    ["a window above the maximum (§6.9.1)", FlowControlError, [windowUpdate(0, 2 ** 31 - 1)]],
    ["a WINDOW_UPDATE by 0 (§6.9)", ProtocolError, [windowUpdate(0, 0)]],
    ["WINDOW_UPDATE of a wrong size (§6.9)", FrameSizeError, [rawFrame(FrameType.WindowUpdate, 0, 0, "abc")]],
    ["RST_STREAM of a wrong size (§6.4)", FrameSizeError, [rawFrame(FrameType.RstStream, 0, 1, "abc")]],
    ["PING of a wrong size (§6.7)", FrameSizeError, [rawFrame(FrameType.Ping, 0, 0, "abc")]],
    ["GOAWAY of a wrong size (§6.8)", FrameSizeError, [rawFrame(FrameType.GoAway, 0, 0, "abc")]],
    ["endless SETTINGS (§10.5)", EnhanceYourCalm, Array<Buffer>(10_200).fill(settings())],
    ["endless PING (§10.5)", EnhanceYourCalm, Array<Buffer>(10_200).fill(ping())],
    ["endless empty DATA (§10.5)", EnhanceYourCalm, [head(1, ok), ...Array<Buffer>(10_200).fill(data(1, ""))]],
    ["endless WINDOW_UPDATE (§10.5)", EnhanceYourCalm, Array<Buffer>(10_200).fill(windowUpdate(1, 1))],
    ["endless RST_STREAM (§10.5)", EnhanceYourCalm, Array<Buffer>(10_200).fill(rst(1, 8))],
    ["endless PRIORITY (§10.5)", EnhanceYourCalm, Array<Buffer>(10_200).fill(rawFrame(2, 0, 1, Buffer.alloc(5)))],
    ["endless unknown frames (§10.5)", EnhanceYourCalm, Array<Buffer>(10_200).fill(rawFrame(99, 0, 0))],
    ["endless interim heads (§10.5)", EnhanceYourCalm, Array<Buffer>(10_200).fill(head(1, [":status", "103"]))],
    [
      "endless CONTINUATION (§10.5)",
      EnhanceYourCalm,
      [rawFrame(FrameType.Headers, 0, 1, block), ...Array<Buffer>(50).fill(rawFrame(FrameType.Continuation, 0, 1))],
    ],
  ])("that sends %s loses the connection", async (_what, code, frames) => {
    const { peer, send, state } = await connectClient();
    const { received, over } = send();
    await peer.until(FrameType.Headers);
    peer.send(...frames);
    await over;
    expect(received.failure?.kind).toBe("reset");
    await expect.poll(() => state.isClosed).toBe(true);
    expect(peer.got(FrameType.GoAway).map(({ payload }) => payload.readUInt32BE(4))).toEqual([code]);
  });

  test.each([
    ["DATA beyond its window (§6.9.1)", FlowControlError, [head(1, ok), data(1, Buffer.alloc(1_001))]],
    ["a window above the maximum (§6.9.1)", FlowControlError, [windowUpdate(1, 2 ** 31 - 1)]],
    ["a WINDOW_UPDATE by 0 (§6.9)", ProtocolError, [windowUpdate(1, 0)]],
  ])("that sends %s loses the stream", async (_what, code, frames) => {
    const { peer, send, client } = await connectClient(settings(), { streamWindowBytes: 1_000 });
    const { received, over } = send();
    await peer.until(FrameType.Headers);
    peer.send(...frames);
    await over;
    expect([received.failure?.kind, client.isAvailable]).toEqual(["reset", true]);
    await peer.until(FrameType.RstStream);
    expect(resetCodes(peer)).toEqual([code]);
  });

  test("that sends references to a large entry gets no memory for them (RFC 7541 §7.1)", async () => {
    const { peer, send, client } = await connectClient();
    const { received, over } = send();
    await peer.until(FrameType.Headers);
    // An entry of 4,000 bytes in the dynamic table, and 10,000 references to it: 40 MB of fields.
    const entry = Buffer.concat([Buffer.from([0x40, 1, 0x78, 0x7f, 0xa1, 0x1e]), Buffer.alloc(4_000, "y")]);
    const bomb = Buffer.concat([Buffer.from([0x88]), entry, Buffer.alloc(10_000, 0xbe)]);
    peer.send(rawFrame(FrameType.Headers, Flag.EndHeaders, 1, bomb));
    await over;
    expect(received.failure?.message).toContain("headers that are too large");
    expect(client.isAvailable).toBe(true);
  });

  test("that responds to an ended stream is ignored, as long as it does not flood (§5.1)", async () => {
    const { peer, client } = await exchange([lastHead(1, ok)]);
    peer.send(data(1, "late"), head(1, ok), rst(1, 8), windowUpdate(1, 5), ping());
    await peer.until(FrameType.Ping);
    expect(client.isAvailable).toBe(true);
  });

  test("that acknowledges no byte while it floods has a bound", async () => {
    const { peer, send, state } = await connectClient(settings(), { maxWaitingBytes: 100 });
    send({ fields: ["x", "y".repeat(1_000)] });
    await peer.until(FrameType.Headers);
    peer.socket.pause();
    peer.send(...Array<Buffer>(100).fill(ping()));
    await expect.poll(() => state.reason).toContain("bytes are not read");
  });
});

test("many small parts of a response are no flood", async () => {
  const { peer, send } = await connectClient();
  const { received, over } = send();
  await peer.until(FrameType.Headers);
  peer.send(head(1, ok), ...Array<Buffer>(30_000).fill(data(1, "x")), lastData(1, "."));
  await over;
  expect(received.body).toHaveLength(30_001);
});

test("an exchange after its end has no effect", async () => {
  const { exchange: sent, peer, client } = await exchange([lastHead(1, ok)]);
  sent.pause();
  sent.resume();
  sent.abort();
  peer.send(ping());
  await peer.until(FrameType.Ping);
  expect([resetCodes(peer), client.isAvailable]).toEqual([[], true]);
});
