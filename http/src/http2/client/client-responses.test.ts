/**
 * Responses to the client of HTTP/2, through its sockets. Each case names the section of RFC 9113 that it is about,
 * unless it names another.
 */
import { describe, expect, test } from "vitest";
import { ErrorCode, Flag, FrameType, maxFramePayloadBytes, Setting } from "../frame.ts";
import { encodeHeaderBlock } from "../hpack/hpack-encoder.ts";
import {
  connectClient,
  data,
  head,
  lastData,
  lastHead,
  ping,
  rst,
  settings,
  windowUpdate,
} from "../testing/connect-client.ts";
import { exchange, goAwayCode, ok, resetCodes } from "../testing/exchange-with-peer.ts";
import { rawFrame } from "../testing/raw-frame.ts";

const longFields = (count: number): Uint8Array =>
  encodeHeaderBlock([...ok, ...Array.from({ length: count }, () => ["x", "y".repeat(16_000)]).flat()]);

/** `x` with a value of 80,000 `e`, whose code has 5 bits (RFC 7541 §B), and 50,000 in the form of §5.1. */
const longHuffmanField = Buffer.concat([
  Buffer.from([0, 1, 0x78, 0xff, 0xd1, 0x85, 0x03]),
  Buffer.from("294a5294a5".repeat(10_000), "hex"),
]);

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

  test.each([
    ["five fields of 16,000 bytes", longFields(5)],
    ["16 fields of 16,000 bytes", longFields(16)],
    ["a field that is 50,000 bytes of Huffman code", Buffer.concat([encodeHeaderBlock(ok), longHuffmanField])],
  ])("with %s ends its stream, and not the connection (§10.5.1)", async (_what, block) => {
    const { peer, send } = await connectClient();
    const { received, over } = send();
    const other = send();
    await peer.until(FrameType.Headers, 2);
    peer.send(...blockOf(block));
    await over;
    expect(received.failure?.kind).toBe("reset");
    peer.send(lastHead(3, ok));
    await other.over;
    expect(other.received.status).toBe(200);
  });

  test("with a header block of more than 256 KiB ends the connection (§10.5.1)", async () => {
    const { peer, send } = await connectClient();
    const { received, over } = send();
    await peer.until(FrameType.Headers);
    peer.send(...blockOf(Buffer.alloc(263_000)));
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

/** Returns the frames of a block on stream 1, each as long as possible. */
function blockOf(block: Uint8Array): readonly Buffer[] {
  const parts: Buffer[] = [];
  for (let start = 0; start < block.length; start += maxFramePayloadBytes) {
    const end = start + maxFramePayloadBytes;
    const type = start === 0 ? FrameType.Headers : FrameType.Continuation;
    parts.push(rawFrame(type, end < block.length ? 0 : Flag.EndHeaders, 1, block.subarray(start, end)));
  }
  return parts;
}
