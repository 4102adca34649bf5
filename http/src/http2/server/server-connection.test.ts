import { once } from "node:events";
import { connect as connectHttp2, constants } from "node:http2";
import fc from "fast-check";
import { afterEach, describe, expect, test } from "vitest";
import { ErrorCode, Flag, FrameType, Setting } from "../frame.ts";
import type { Http2Limits } from "./server-limits.ts";
import { EchoServer } from "../testing/echo-server.ts";
import { rawFrame, uint32 } from "../testing/raw-frame.ts";
import { RawClient, requestBlock } from "../testing/raw-client.ts";

const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

async function startServer(limits: Partial<Http2Limits> = {}, maxConnectionMemory?: number) {
  const server = new EchoServer(limits, maxConnectionMemory);
  closers.push(() => server.close());
  return { server, port: await server.listen() };
}

function client(port: number, sendPreface = true): RawClient {
  const raw = new RawClient(port, sendPreface);
  closers.push(() => raw.socket.destroy());
  return raw;
}

const open = (id: number, ...fields: readonly string[]) =>
  rawFrame(FrameType.Headers, Flag.EndHeaders, id, requestBlock(...fields));
const whole = (id: number, ...fields: readonly string[]) =>
  rawFrame(FrameType.Headers, Flag.EndHeaders | Flag.EndStream, id, requestBlock(...fields));
const data = (id: number, content: string | Uint8Array, flags = 0) => rawFrame(FrameType.Data, flags, id, content);
const setting = (name: number, value: number) =>
  rawFrame(FrameType.Settings, 0, 0, Buffer.concat([Buffer.from([0, name]), uint32(value)]));

describe("ServerConnection", () => {
  test("serves many requests on one connection, each in its own order", async () => {
    const { port } = await startServer();
    const raw = client(port);
    for (let id = 1; id < 200; id += 2) raw.send(open(id), data(id, `body ${id}`, Flag.EndStream));
    await raw.until(() => raw.frames.find((frame) => frame.streamId === 199 && (frame.flags & Flag.EndStream) !== 0));

    const bodies = raw.frames.filter(({ type }) => type === FrameType.Data);
    expect(bodies.map(({ streamId, payload }) => [streamId, payload.toString()])).toEqual(
      Array.from({ length: 100 }, (_, index) => [index * 2 + 1, `body ${index * 2 + 1}`]),
    );
  });

  test("serves node's client with header values of every byte and bodies of every size", async () => {
    const { server, port } = await startServer();
    const session = connectHttp2(`http://127.0.0.1:${port}`);
    closers.push(() => session.destroy());
    // Bytes that a field may contain, so that every word of the Huffman code goes over the wire.
    const value = fc
      .string({ unit: fc.integer({ min: 0x20, max: 0xff }).map((code) => String.fromCharCode(code)), maxLength: 80 })
      .filter((text) => text === text.trim() && !/[\x7f]/.test(text));
    await fc.assert(
      fc.asyncProperty(value, fc.integer({ min: 1, max: 200_000 }), async (header, bytes) => {
        const stream = session.request({ ":method": "POST", ":path": "/", "x-value": header });
        stream.end(Buffer.alloc(bytes, "x"));
        let received = 0;
        stream.on("data", (chunk: Buffer) => (received += chunk.length));
        const [trailers] = await Promise.all([once(stream, "trailers"), once(stream, "close")]);

        expect(received).toBe(bytes);
        expect((trailers as [Record<string, string>])[0]["x-end"]).toBe("yes");
        const fields = server.heads.at(-1)?.fields ?? [];
        expect(fields[fields.indexOf("x-value") + 1]).toBe(header);
      }),
      { numRuns: 150 },
    );
  });

  test("waits for the peer's windows and goes on when they open", async () => {
    const { port } = await startServer();
    const raw = client(port);
    raw.send(setting(Setting.InitialWindowSize, 3), open(1), data(1, "0123456789", Flag.EndStream));
    await raw.frame(FrameType.Data, 1);
    raw.send(rawFrame(FrameType.WindowUpdate, 0, 1, uint32(4)), setting(Setting.InitialWindowSize, 4));
    raw.send(rawFrame(FrameType.WindowUpdate, 0, 1, uint32(100)));
    await raw.until(() => raw.frames.find(({ flags, type }) => type === FrameType.Headers && (flags & 1) === 1));

    const pieces = raw.frames.filter(({ type }) => type === FrameType.Data).map(({ payload }) => payload.toString());
    expect(pieces).toEqual(["012", "3456", "7", "89"]);
  });

  test("sends no more than the connection's window allows, over all streams", async () => {
    const { port } = await startServer();
    const raw = client(port);
    raw.send(setting(Setting.InitialWindowSize, 1_000_000));
    for (const id of [1, 3]) {
      raw.send(
        open(id),
        data(id, Buffer.alloc(16_000)),
        data(id, Buffer.alloc(16_000)),
        data(id, Buffer.alloc(16_000), 1),
      );
    }
    const received = () =>
      raw.frames.filter(({ type }) => type === FrameType.Data).reduce((sum, { payload }) => sum + payload.length, 0);
    await raw.until(() => (received() === 65_535 ? true : undefined));
    raw.send(rawFrame(FrameType.WindowUpdate, 0, 0, uint32(100_000)));

    await raw.until(() => (received() === 96_000 ? true : undefined));
  });

  test("opens its own windows again for a body larger than them", async () => {
    const { port } = await startServer({ streamWindowBytes: 20_000, connectionWindowBytes: 70_000 });
    const raw = client(port);
    raw.send(setting(Setting.InitialWindowSize, 2 ** 31 - 1), rawFrame(FrameType.WindowUpdate, 0, 0, uint32(2 ** 30)));
    raw.send(open(1));
    for (let sent = 0; sent < 20; sent++) {
      raw.send(data(1, Buffer.alloc(10_001), sent === 19 ? Flag.EndStream : 0));
      const updates = sent + 1;
      if (sent < 19) {
        await raw.until(() =>
          raw.frames.filter(({ type, streamId }) => type === FrameType.WindowUpdate && streamId === 1).length ===
          updates
            ? true
            : undefined,
        );
      }
    }

    await raw.until(() => raw.frames.find(({ flags, type }) => type === FrameType.Headers && (flags & 1) === 1));
  });

  test("accepts padding, priority and a header block in pieces", async () => {
    const { server, port } = await startServer();
    const raw = client(port);
    const block = requestBlock("x-long", "v".repeat(100));
    const head = Buffer.concat([
      Buffer.from([3]),
      uint32(0),
      Buffer.from([16]),
      block.subarray(0, 20),
      Buffer.alloc(3),
    ]);
    raw.send(
      rawFrame(FrameType.Headers, Flag.Padded | Flag.Priority, 1, head),
      rawFrame(FrameType.Continuation, 0, 1, block.subarray(20, 60)),
      rawFrame(FrameType.Continuation, Flag.EndHeaders, 1, block.subarray(60)),
      data(1, Buffer.from("\x02hi\0\0", "latin1"), Flag.Padded | Flag.EndStream),
    );

    expect((await raw.frame(FrameType.Data, 1)).payload.toString()).toBe("hi");
    expect(server.heads[0]?.fields).toEqual(["x-long", "v".repeat(100)]);
  });

  test("acknowledges a ping with the same bytes, and ignores frames of unknown types", async () => {
    const { port } = await startServer();
    const raw = client(port);
    raw.send(rawFrame(0xee, 0xff, 5, "what"), rawFrame(FrameType.Ping, 0, 0, "12345678"));

    const pong = await raw.frame(FrameType.Ping);
    expect(pong).toMatchObject({ flags: Flag.Ack, payload: Buffer.from("12345678") });
  });

  test("responds with 431 to a header list beyond its bound and keeps the table in sync", async () => {
    const { server, port } = await startServer({ maxHeaderListBytes: 300 });
    const raw = client(port);
    raw.send(whole(1, "x", "v".repeat(300)), whole(3));
    await raw.frame(FrameType.Headers, 3);

    const first = await raw.frame(FrameType.Headers, 1);
    expect(first.flags & Flag.EndStream).toBe(Flag.EndStream);
    expect(first.payload.toString("latin1")).toContain("431");
    expect(server.heads).toHaveLength(1);
  });
});

describe("a client that violates the protocol", () => {
  const goAway = (code: number) => ({ frame: "GOAWAY", code });
  const reset = (code: number) => ({ frame: "RST_STREAM", code });
  const { ProtocolError, FrameSizeError, FlowControlError, StreamClosed, CompressionError, EnhanceYourCalm } =
    ErrorCode;
  const block = (...fields: readonly string[]) =>
    rawFrame(FrameType.Headers, Flag.EndHeaders | Flag.EndStream, 1, requestBlock(...fields));

  test.each([
    ["a frame longer than the default", goAway(FrameSizeError), [data(1, Buffer.alloc(16_385))]],
    ["DATA on stream 0", goAway(ProtocolError), [data(0, "x")]],
    ["DATA on a stream not opened", goAway(ProtocolError), [data(1, "x")]],
    ["DATA after the end of the request", goAway(StreamClosed), [whole(1), data(1, "x")]],
    ["HEADERS on an even stream", goAway(ProtocolError), [whole(2)]],
    ["HEADERS on stream 0", goAway(ProtocolError), [whole(0)]],
    ["HEADERS on a stream passed over", goAway(StreamClosed), [whole(5), whole(3)]],
    ["padding longer than its frame", goAway(ProtocolError), [open(1), data(1, "\x05abc", Flag.Padded)]],
    ["a stream that depends on itself", goAway(ProtocolError), [rawFrame(2, 0, 1, Buffer.from("0000000110", "hex"))]],
    ["PRIORITY of four bytes", goAway(FrameSizeError), [rawFrame(2, 0, 1, "1234")]],
    ["CONTINUATION alone", goAway(ProtocolError), [rawFrame(9, 4, 1, "")]],
    [
      "another frame within a header block",
      goAway(ProtocolError),
      [rawFrame(1, 0, 1, ""), rawFrame(6, 0, 0, "12345678")],
    ],
    ["a push", goAway(ProtocolError), [rawFrame(5, 4, 1, "")]],
    ["SETTINGS on a stream", goAway(ProtocolError), [rawFrame(4, 0, 1, "")]],
    ["SETTINGS of five bytes", goAway(FrameSizeError), [rawFrame(4, 0, 0, "12345")]],
    ["an acknowledgement with content", goAway(FrameSizeError), [rawFrame(4, 1, 0, "123456")]],
    ["ENABLE_PUSH 2", goAway(ProtocolError), [setting(Setting.EnablePush, 2)]],
    ["a window of 2^31", goAway(FlowControlError), [setting(Setting.InitialWindowSize, 2 ** 31)]],
    ["MAX_FRAME_SIZE 1", goAway(ProtocolError), [setting(Setting.MaxFrameSize, 1)]],
    ["PING of seven bytes", goAway(FrameSizeError), [rawFrame(6, 0, 0, "1234567")]],
    ["RST_STREAM on a stream not opened", goAway(ProtocolError), [rawFrame(3, 0, 1, uint32(8))]],
    ["RST_STREAM of three bytes", goAway(FrameSizeError), [open(1), rawFrame(3, 0, 1, "123")]],
    ["WINDOW_UPDATE by 0 on the connection", goAway(ProtocolError), [rawFrame(8, 0, 0, uint32(0))]],
    ["WINDOW_UPDATE by 0 on a stream", reset(ProtocolError), [open(1), rawFrame(8, 0, 1, uint32(0))]],
    ["a connection window beyond its bound", goAway(FlowControlError), [rawFrame(8, 0, 0, uint32(2 ** 31 - 1))]],
    ["a stream window beyond its bound", reset(FlowControlError), [open(1), rawFrame(8, 0, 1, uint32(2 ** 31 - 1))]],
    ["a header block that cannot be decoded", goAway(CompressionError), [rawFrame(1, 5, 1, Buffer.from([0x80]))]],
    ["a field name in upper case", reset(ProtocolError), [block("X-Upper", "1")]],
    ["a connection field", reset(ProtocolError), [block("connection", "close")]],
    ["te other than trailers", reset(ProtocolError), [block("te", "gzip")]],
    ["a pseudo field after others", reset(ProtocolError), [block("a", "1", ":path", "/")]],
    ["a pseudo field twice", reset(ProtocolError), [block(":path", "/other")]],
    ["an unknown pseudo field", reset(ProtocolError), [block(":status", "200")]],
    ["a line break in a value", reset(ProtocolError), [block("a", "1\r\nb: 2")]],
    ["a body longer than content-length", reset(ProtocolError), [open(1, "content-length", "1"), data(1, "ab", 1)]],
    ["a body shorter than content-length", reset(ProtocolError), [open(1, "content-length", "3"), data(1, "ab", 1)]],
    ["two content-lengths", reset(ProtocolError), [open(1, "content-length", "1", "content-length", "1")]],
    ["trailers that do not end the stream", reset(ProtocolError), [open(1), open(1)]],
    ["a pseudo field in trailers", reset(ProtocolError), [open(1), whole(1)]],
    [
      "a header block in seventeen pieces",
      goAway(EnhanceYourCalm),
      [rawFrame(1, 0, 1, ""), ...Array.from({ length: 17 }, () => rawFrame(9, 0, 1, ""))],
    ],
  ] as const)("gets the reason: %s", async (_, expected, frames) => {
    const { port } = await startServer();
    const raw = client(port);
    raw.send(...frames);

    expect(await raw.errorCode()).toEqual(expected);
  });

  test.each([
    ["pings", Array.from({ length: 1_200 }, () => rawFrame(FrameType.Ping, 0, 0, "12345678"))],
    ["settings", Array.from({ length: 1_200 }, () => rawFrame(FrameType.Settings, 0, 0))],
    ["priorities", Array.from({ length: 1_200 }, () => rawFrame(FrameType.Priority, 0, 1, "12345"))],
    ["empty data", [open(1), ...Array.from({ length: 1_200 }, () => data(1, ""))]],
    ["data of one byte", [open(1), ...Array.from({ length: 1_200 }, () => data(1, "x"))]],
    [
      "data of one byte on a request that was reset",
      [open(1), whole(1, "UPPER", "x"), ...Array.from({ length: 1_200 }, () => data(1, "x"))],
    ],
    [
      "trailers on a request that was reset",
      [open(1), whole(1, "UPPER", "x"), ...Array.from({ length: 1_200 }, () => whole(1))],
    ],
    ["window updates", Array.from({ length: 1_200 }, () => rawFrame(FrameType.WindowUpdate, 0, 0, uint32(1)))],
    [
      "window updates while responses wait for another window",
      [
        setting(Setting.InitialWindowSize, 0),
        ...Array.from({ length: 100 }, (_, index) => [
          open(index * 2 + 1),
          data(index * 2 + 1, "x", Flag.EndStream),
        ]).flat(),
        ...Array.from({ length: 3_000 }, () => rawFrame(FrameType.WindowUpdate, 0, 0, uint32(1))),
      ],
    ],
    [
      "window updates that let a byte leave each",
      [
        setting(Setting.InitialWindowSize, 0),
        open(1),
        data(1, Buffer.alloc(16_000), Flag.EndStream),
        ...Array.from({ length: 3_000 }, () => rawFrame(FrameType.WindowUpdate, 0, 1, uint32(1))),
      ],
    ],
    [
      "requests begun and cancelled",
      Array.from({ length: 300 }, (_, index) => [open(index * 2 + 1), rawFrame(3, 0, index * 2 + 1, uint32(8))]).flat(),
    ],
    ["malformed requests", Array.from({ length: 300 }, (_, index) => whole(index * 2 + 1, "UPPER", "x"))],
  ])("is disconnected for a flood of %s", async (_, frames) => {
    const { port } = await startServer();
    const raw = client(port);
    raw.send(...frames);
    const last = await raw.frame(FrameType.GoAway);

    expect(last.payload.readUInt32BE(4)).toBe(EnhanceYourCalm);
    await raw.closed();
  });

  test("cannot start more work than its streams by cancelling it", async () => {
    const { server, port } = await startServer({ maxConcurrentStreams: 10 });
    server.hold = true;
    const raw = client(port);
    for (let id = 1; id < 41; id += 2) raw.send(whole(id), rawFrame(FrameType.RstStream, 0, id, uint32(8)));
    const rejection = await raw.frame(FrameType.RstStream, 39);

    expect(rejection.payload.readUInt32BE()).toBe(ErrorCode.RefusedStream);
    expect(server.held).toHaveLength(10);

    for (const finish of server.held.splice(0)) finish();
    raw.send(whole(41));
    await expect.poll(() => server.held.length).toBe(1);
    server.held[0]?.();
    await raw.frame(FrameType.Headers, 41);
  });

  test("that is only busy may ping, open windows and cancel late as often as it calls", async () => {
    const { port } = await startServer();
    const raw = client(port);
    for (let id = 1; id < 6_001; id += 2) {
      raw.send(
        open(id),
        data(id, "x", Flag.EndStream),
        rawFrame(FrameType.Ping, 0, 0, "12345678"),
        rawFrame(FrameType.WindowUpdate, 0, 0, uint32(1)),
        ...(id > 9 ? [rawFrame(FrameType.RstStream, 0, id - 8, uint32(8))] : []),
      );
      if (id % 200 === 1) await raw.frame(FrameType.Data, id);
    }
    await raw.frame(FrameType.Data, 5_999);

    expect(raw.frames.filter(({ type }) => type === FrameType.GoAway)).toEqual([]);
  });

  test("may read a large response in pieces of a kilobyte", async () => {
    const { port } = await startServer();
    const raw = client(port);
    raw.send(setting(Setting.InitialWindowSize, 0));
    for (let id = 1; id < 401; id += 2) {
      raw.send(open(id), data(id, Buffer.alloc(16_000), Flag.EndStream));
      for (let read = 0; read < 16; read++) {
        raw.send(rawFrame(FrameType.WindowUpdate, 0, 0, uint32(1_000)));
        raw.send(rawFrame(FrameType.WindowUpdate, 0, id, uint32(1_000)));
      }
      await raw.until(() => raw.frames.find((frame) => frame.streamId === id && (frame.flags & Flag.EndStream) !== 0));
    }

    expect(raw.frames.filter(({ type }) => type === FrameType.GoAway)).toEqual([]);
  });

  test("that opens the connection's window gets the responses that wait for it", async () => {
    const { port } = await startServer();
    const raw = client(port);
    const ended = (id: number) =>
      raw.until(() => raw.frames.find((frame) => frame.streamId === id && (frame.flags & Flag.EndStream) !== 0));
    // Five responses of 16,000 bytes are more than the connection's window of 65,535.
    for (const id of [1, 3, 5, 7, 9]) raw.send(open(id), data(id, Buffer.alloc(16_000), Flag.EndStream));
    await ended(7);
    raw.send(setting(Setting.InitialWindowSize, 0), open(11), data(11, Buffer.alloc(100), Flag.EndStream));
    await raw.frame(FrameType.Headers, 11);
    raw.send(setting(Setting.InitialWindowSize, 65_535), rawFrame(FrameType.WindowUpdate, 0, 0, uint32(60_000)));
    await Promise.all([ended(9), ended(11)]);
    const received = (id: number) =>
      raw.frames
        .filter((frame) => frame.type === FrameType.Data && frame.streamId === id)
        .reduce((sum, { payload }) => sum + payload.length, 0);
    expect([7, 9, 11].map(received)).toEqual([16_000, 16_000, 100]);
  });

  test("may send each request in some small frames, a thousand requests at a time", async () => {
    const { port } = await startServer();
    const raw = client(port);
    const ids = Array.from({ length: 1_000 }, (_, index) => index * 2 + 1);
    for (const id of ids) raw.send(open(id), ...Array.from({ length: 8 }, () => data(id, "x")));
    for (const id of ids) raw.send(data(id, "x", Flag.EndStream));
    await raw.until(() => raw.frames.find((frame) => frame.streamId === 1_999 && (frame.flags & Flag.EndStream) !== 0));

    expect(raw.frames.filter(({ type }) => type === FrameType.GoAway)).toEqual([]);
    expect(raw.frames.filter(({ type }) => type === FrameType.Data)).toHaveLength(1_000);
  });

  test("that reads no responses is disconnected when too many wait", async () => {
    const { server, port } = await startServer({ maxWaitingBytes: 50_000 });
    const raw = client(port);
    raw.send(setting(Setting.InitialWindowSize, 0));
    for (let id = 1; id < 11; id += 2) raw.send(open(id), data(id, Buffer.alloc(16_000), Flag.EndStream));
    await raw.frame(FrameType.GoAway);

    expect(String(server.errors[0])).toContain("bytes of responses are not read");
  });

  test("that reads no responses is disconnected when all clients together hold too much, and others are not", async () => {
    const { server, port } = await startServer({}, 200_000);
    const stall = async (responses: number) => {
      const raw = client(port);
      raw.send(setting(Setting.InitialWindowSize, 0));
      for (let id = 1; id <= 2 * responses; id += 2) raw.send(open(id), data(id, Buffer.alloc(15_000), Flag.EndStream));
      await raw.frame(FrameType.Headers, 2 * responses - 1);
      return raw;
    };
    const [small, large] = [await stall(4), await stall(7)];
    expect(server.memory.bytes).toBe(11 * (15_000 + 1_024));
    const third = await stall(2);
    await large.closed();

    expect(String(server.errors)).toContain("bytes of unread responses and open calls");
    expect(server.errors).toHaveLength(1);
    expect(server.memory.bytes).toBe(6 * (15_000 + 1_024));
    for (const raw of [small, third]) {
      raw.send(setting(Setting.InitialWindowSize, 100_000));
      await raw.until(() => raw.frames.find(({ type, flags }) => type === FrameType.Headers && (flags & 1) !== 0));
    }
    await expect.poll(() => server.memory.bytes).toBe(0);
  });

  test("that begins calls and does not finish them is disconnected when all clients together hold too much", async () => {
    const { server, port } = await startServer({}, 300 * 1_024);
    const raw = client(port);
    const honest = client(port);
    honest.send(open(1), data(1, "x", Flag.EndStream));
    await honest.frame(FrameType.Data);
    for (let id = 1; id <= 602; id += 2) raw.send(open(id));
    await raw.closed();
    honest.send(open(3), data(3, "x", Flag.EndStream));
    await honest.frame(FrameType.Data, 3);

    expect(server.errors).toHaveLength(1);
    expect(server.memory.bytes).toBe(0);
  });

  test("of HTTP/1 gets a 505", async () => {
    const { port } = await startServer();
    const raw = client(port, false);
    raw.send(Buffer.from("GET / HTTP/1.1\r\nhost: a\r\n\r\n"));
    await raw.closed();

    expect(raw.text).toMatch(/^HTTP\/1\.1 505 .*speaks gRPC/s);
  });

  test("may send any bytes: the connection ends, and the server continues", async () => {
    const { port } = await startServer();
    const piece = fc.oneof(
      fc.tuple(fc.nat(10), fc.nat(255), fc.nat(9), fc.uint8Array({ maxLength: 40 })).map((frame) => rawFrame(...frame)),
      fc.nat(9).map((id) => open(id)),
      fc.nat(9).map((id) => data(id, "x", 1)),
      fc.uint8Array({ maxLength: 30 }).map((bytes) => Buffer.from(bytes)),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(piece, { minLength: 1, maxLength: 12 }), async (pieces) => {
        const raw = client(port);
        raw.send(...pieces);
        raw.socket.end();
        await raw.closed();
      }),
      { numRuns: 300 },
    );
    const last = client(port);
    last.send(open(1), data(1, "alive", Flag.EndStream));

    expect((await last.frame(FrameType.Data, 1)).payload.toString()).toBe("alive");
  });
});

describe("drain", () => {
  test("serves the requests in progress and those that cross the GOAWAY, then ends", async () => {
    const { server, port } = await startServer();
    server.hold = true;
    const raw = client(port);
    raw.send(whole(1));
    await expect.poll(() => server.held.length).toBe(1);
    for (const connection of server.connections) connection.drain();
    const first = await raw.frame(FrameType.GoAway);
    const ping = await raw.frame(FrameType.Ping);
    raw.send(whole(3), rawFrame(FrameType.Ping, Flag.Ack, 0, ping.payload));
    // The request is too late to be served, and must not be an error.
    raw.send(open(5), data(5, "late", Flag.EndStream));
    const second = await raw.until(() => raw.frames.filter(({ type }) => type === FrameType.GoAway)[1]);

    expect(first.payload.readUInt32BE()).toBe(2 ** 31 - 1);
    expect(second.payload.readUInt32BE()).toBe(3);
    expect(server.held).toHaveLength(2);

    for (const finish of server.held) finish();
    await raw.closed();
    expect(raw.frames.filter(({ flags, type }) => type === FrameType.Headers && (flags & 1) === 1)).toHaveLength(2);
  });

  test("is an ordinary end for node's client", async () => {
    const { server, port } = await startServer();
    const session = connectHttp2(`http://127.0.0.1:${port}`);
    await once(session, "remoteSettings");
    const goaway = once(session, "goaway");
    for (const connection of server.connections) connection.drain();

    expect((await goaway)[0]).toBe(constants.NGHTTP2_NO_ERROR);
    await once(session, "close");
  });
});
