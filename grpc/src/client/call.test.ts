import { createServer as createHttp2Server, type ServerHttp2Stream } from "node:http2";
import type { AddressInfo } from "node:net";
import { ErrorCode, Flag, FrameType, Setting } from "@gatewayproxy/http/http2/frame";
import { encodeHeaderBlock } from "@gatewayproxy/http/http2/hpack/hpack-encoder";
import { rawFrame, uint32 } from "@gatewayproxy/http/http2/testing/raw-frame";
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import fc from "fast-check";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { defaultClientLimits } from "@gatewayproxy/http/http2/client/client-limits";
import { RawServer } from "@gatewayproxy/http/http2/testing/raw-server";
import { responded, clientOf, data, headers, lastHeaders, ok, path, settings } from "./testing/calls.ts";
import { framed, okTrailers, respond, responseHead } from "./testing/raw-service.ts";

describe("a call", () => {
  test("is a gRPC request with its deadline, and its response ends it", async () => {
    const service = await RawServer.start();
    const { call } = clientOf([service.port]);
    const outcome = call();
    const peer = await service.peer();
    const sent = await peer.until(FrameType.Data);
    respond(peer, 1, ok);
    expect(await outcome).toEqual(responded);
    expect(sent).toMatchObject({ streamId: 1, flags: Flag.EndStream, payload: framed(Buffer.from("ask")) });
    const head = peer.got(FrameType.Headers)[0]?.payload.toString("latin1");
    expect(head).toContain(path);
    expect(head).toMatch(/grpc-timeout.{1,2}\d{4,5}m/);
  });

  test("is sent in one write with all others of the same turn", async () => {
    const service = await RawServer.start();
    const { call } = clientOf([service.port]);
    const first = call();
    const peer = await service.peer();
    await peer.until(FrameType.Data);
    respond(peer, 1, ok);
    await first;
    const outcomes = Array.from({ length: 20 }, () => call());
    await peer.until(FrameType.Data, 21);
    expect(peer.chunks.at(-1)?.filter(({ type }) => type === FrameType.Data)).toHaveLength(20);
    for (let at = 0; at < 20; at++) respond(peer, 3 + 2 * at, ok);
    expect(await Promise.all(outcomes)).toEqual(new Array(20).fill(responded));
  });

  test("is sent after the service's settings, within their number of concurrent streams", async () => {
    const service = await RawServer.start(settings([Setting.MaxConcurrentStreams, 2]));
    const { call } = clientOf([service.port]);
    const outcomes = [call(), call(), call()];
    const peer = await service.peer();
    await peer.until(FrameType.Data, 2);
    peer.send(rawFrame(FrameType.Ping, 0, 0, "12345678"));
    await peer.until(FrameType.Ping);
    expect(peer.got(FrameType.Headers)).toHaveLength(2);
    respond(peer, 1, ok);
    await peer.until(FrameType.Data, 3);
    respond(peer, 3, ok);
    respond(peer, 5, ok);
    expect(await Promise.all(outcomes)).toEqual([responded, responded, responded]);
  });

  test("larger than the service's window is sent in chunks, as the windows open", async () => {
    const service = await RawServer.start(settings([Setting.InitialWindowSize, 10]));
    const { call } = clientOf([service.port]);
    const message = Buffer.from("a message of thirty-five bytes ....");
    const outcome = call(message);
    const peer = await service.peer();
    expect((await peer.until(FrameType.Data)).payload).toHaveLength(10);
    peer.send(rawFrame(FrameType.WindowUpdate, 0, 1, uint32(7)));
    expect((await peer.until(FrameType.Data, 2)).payload).toHaveLength(7);
    peer.send(settings([Setting.InitialWindowSize, 1_000]));
    expect(await peer.until(FrameType.Data, 3)).toMatchObject({ flags: Flag.EndStream });
    expect(Buffer.concat(peer.got(FrameType.Data).map(({ payload }) => payload))).toEqual(framed(message));
    respond(peer, 1, ok);
    expect(await outcome).toEqual(responded);
  });

  test("that fills the connection's window blocks the others until it opens", async () => {
    const service = await RawServer.start(settings([Setting.InitialWindowSize, 1_000_000]));
    const { call } = clientOf([service.port]);
    const outcomes = [call(Buffer.alloc(70_000)), call()];
    const peer = await service.peer();
    await peer.until(FrameType.Headers, 2);
    await peer.until(FrameType.Data, 4);
    const sent = (): number => peer.got(FrameType.Data).reduce((sum, { payload }) => sum + payload.length, 0);
    expect(sent()).toBe(65_535);
    peer.send(rawFrame(FrameType.WindowUpdate, 0, 0, uint32(100_000)));
    await peer.until(FrameType.Data, 6);
    expect(sent()).toBe(70_005 + 8);
    respond(peer, 1, ok);
    respond(peer, 3, ok);
    expect(await Promise.all(outcomes)).toEqual([responded, responded]);
  });

  test("without a stream identifier left goes on a new connection", async () => {
    const service = await RawServer.start();
    const { call } = clientOf([service.port], { limits: { ...defaultClientLimits, maxStreamId: 5 } });
    const first = call();
    const peer = await service.peer();
    await peer.until(FrameType.Data);
    respond(peer, 1, ok);
    await first;
    const outcomes = [call(), call(), call()];
    await peer.until(FrameType.Data, 3);
    const next = await service.peer(2);
    await next.until(FrameType.Data);
    respond(next, 1, ok);
    respond(peer, 3, ok);
    respond(peer, 5, ok);
    expect(await Promise.all(outcomes)).toEqual([responded, responded, responded]);
    await peer.closed();
  });
});

describe("a response", () => {
  test("is decoded from Huffman code and the dynamic table, from one call to the next", async () => {
    const service = await RawServer.start();
    const { call } = clientOf([service.port]);
    // `grpc-status: 0` as a literal that is added to the table, its name in Huffman code; then by its index in the
    // table.
    const huffmanName = Buffer.from("9acac8b21234da8f", "hex");
    const indexed = Buffer.concat([
      Buffer.from([0x40, 0x80 | huffmanName.length]),
      huffmanName,
      Buffer.from([1, 0x30]),
    ]);
    for (const [at, trailers] of [indexed, Buffer.from([0xbe]), Buffer.from([0xbe])].entries()) {
      const outcome = call();
      const peer = await service.peer();
      await peer.until(FrameType.Data, at + 1);
      const id = 1 + 2 * at;
      peer.send(headers(id, Buffer.from([0x88])), data(id, framed(ok)), lastHeaders(id, trailers));
      expect(await outcome).toEqual(responded);
    }
  });

  test("is the same for any division into frames and chunks", async () => {
    const service = await RawServer.start();
    const { call } = clientOf([service.port]);
    let id = -1;
    const cuts = fc.array(fc.nat({ max: 40 }), { maxLength: 4 });
    await fc.assert(
      fc.asyncProperty(cuts, cuts, cuts, fc.nat({ max: 20 }), async (headCuts, dataCuts, byteCuts, padding) => {
        const outcome = call();
        id += 2;
        const peer = await service.peer();
        await peer.until(FrameType.Data, (id + 1) / 2);
        const [first = responseHead, ...others] = split(responseHead, headCuts);
        const bytes = Buffer.concat([
          headers(id, first, others.length === 0 ? Flag.EndHeaders : 0),
          ...others.map((part, at) =>
            rawFrame(FrameType.Continuation, at === others.length - 1 ? Flag.EndHeaders : 0, id, part),
          ),
          ...split(framed(ok), dataCuts).map((part) =>
            rawFrame(
              FrameType.Data,
              Flag.Padded,
              id,
              Buffer.concat([Buffer.from([padding]), part, Buffer.alloc(padding)]),
            ),
          ),
          lastHeaders(id, okTrailers),
        ]);
        for (const part of split(bytes, byteCuts)) peer.socket.write(part);
        expect(await outcome).toEqual(responded);
      }),
      { numRuns: 100 },
    );
  });

  test("of nearly the largest size arrives whole from a server that respects the windows", async () => {
    const large = Buffer.alloc(1_000_000, "x");
    const server = createHttp2Server();
    server.on("stream", (stream: ServerHttp2Stream) => {
      stream.respond({ ":status": 200 }, { waitForTrailers: true });
      stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0" }));
      stream.end(framed(large));
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void server.close());
    // A TCP server that listens has such an address.
    const { call, client } = clientOf([(server.address() as AddressInfo).port]);
    for (let times = 0; times < 4; times++) expect(await call()).toEqual({ kind: "responded", message: large });
    client.close();
  });

  test("to a call that has timed out is ignored, and later ones are still decoded", async () => {
    const service = await RawServer.start();
    const clock = new FakeClock();
    const { call } = clientOf([service.port], { clock });
    const late = call(Buffer.from("late"), 100);
    const peer = await service.peer();
    await peer.until(FrameType.Data);
    clock.advance(100);
    expect(await late).toMatchObject({ kind: "failed", cause: "timeout" });
    expect((await peer.until(FrameType.RstStream)).payload).toEqual(uint32(ErrorCode.Cancel));
    const next = call();
    await peer.until(FrameType.Data, 2);
    // The late response fills the table that the next one refers to.
    const indexed = Buffer.concat([Buffer.from([0x40]), encodeHeaderBlock(["grpc-status", "0"]).subarray(1)]);
    peer.send(headers(1, responseHead), data(1, framed(ok)), lastHeaders(1, indexed));
    peer.send(headers(3, responseHead), data(3, framed(ok)), lastHeaders(3, Buffer.from([0xbe])));
    expect(await next).toEqual(responded);
  });

  // One field of 133 bytes that is added to the table, and 200 references to it.
  const hugeHead = Buffer.concat([
    Buffer.from([0x88, 0x40, 1, 0x78, 100]),
    Buffer.alloc(100, "y"),
    Buffer.alloc(200, 0xbe),
  ]);
  const status = (code: string): Buffer => encodeHeaderBlock([":status", code]);
  test.each([
    ["without :status", [lastHeaders(1, okTrailers)]],
    ["with a field name in upper case", [lastHeaders(1, encodeHeaderBlock([":status", "200", "Grpc-Status", "0"]))]],
    ["with a field of HTTP/1", [lastHeaders(1, encodeHeaderBlock([":status", "200", "connection", "close"]))]],
    ["with headers beyond all measure", [headers(1, hugeHead)]],
    ["that begins with data", [data(1, framed(ok))]],
    ["with a second head in the place of trailers", [headers(1, responseHead), lastHeaders(1, responseHead)]],
    ["with trailers that do not end it", [headers(1, responseHead), headers(1, okTrailers)]],
    ["that ends without trailers", [headers(1, responseHead), rawFrame(FrameType.Data, Flag.EndStream, 1, framed(ok))]],
    ["whose status is no number", [lastHeaders(1, status("2x0"))]],
  ])("%s is garbage, and the connection goes on", async (_, frames) => {
    const service = await RawServer.start();
    const { call } = clientOf([service.port]);
    const outcome = call();
    const peer = await service.peer();
    await peer.until(FrameType.Data);
    peer.send(...frames);
    expect(await outcome).toMatchObject({ kind: "failed", cause: "garbage" });
    const next = call();
    await peer.until(FrameType.Data, 2);
    respond(peer, 3, ok);
    expect(await next).toEqual(responded);
  });

  test("of more than a mebibyte is reset", async () => {
    const service = await RawServer.start();
    const { call } = clientOf([service.port], {
      limits: { ...defaultClientLimits, streamWindowBytes: 2_000_000, connectionWindowBytes: 4_000_000 },
    });
    const outcome = call();
    const peer = await service.peer();
    await peer.until(FrameType.Data);
    peer.send(headers(1, responseHead), ...Array.from({ length: 65 }, () => data(1, Buffer.alloc(16_384))));
    expect(await outcome).toMatchObject({ kind: "failed", cause: "garbage" });
    expect((await peer.until(FrameType.RstStream)).payload).toEqual(uint32(ErrorCode.Cancel));
  });

  test("with a prefix of more than a mebibyte is reset at once", async () => {
    const service = await RawServer.start();
    const { call } = clientOf([service.port]);
    const outcome = call();
    const peer = await service.peer();
    await peer.until(FrameType.Data);
    peer.send(headers(1, responseHead), data(1, Buffer.concat([Buffer.from([0]), uint32(1_048_572)])));
    expect(await outcome).toMatchObject({ kind: "failed", cause: "garbage" });
    expect((await peer.until(FrameType.RstStream)).payload).toEqual(uint32(ErrorCode.Cancel));
  });

  test("in thousands of chunks is joined once", async () => {
    const service = await RawServer.start();
    const { call } = clientOf([service.port], { clock: new FakeClock() });
    const outcome = call();
    const peer = await service.peer();
    await peer.until(FrameType.Data);
    const message = Buffer.alloc(100_000, "x");
    const whole = framed(message);
    const pieces = split(whole, [...Array.from({ length: 6 }, (_, i) => (i + 1) * 16_000), ...count(4_000, 96_001)]);
    const frames = Buffer.concat([
      headers(1, responseHead),
      ...pieces.map((piece) => data(1, piece)),
      lastHeaders(1, okTrailers),
    ]);
    let joinedBytes = 0;
    const concat = Buffer.concat.bind(Buffer);
    const spy = vi.spyOn(Buffer, "concat").mockImplementation((list, length) => {
      const joined = concat(list, length);
      // Bytes from the socket are joined with the unfinished frame before them.
      joinedBytes += joined.length;
      return joined;
    });
    onTestFinished(() => spy.mockRestore());
    peer.send(frames);
    expect(await outcome).toEqual({ kind: "responded", message });
    expect(joinedBytes).toBeLessThan(10 * frames.length);
  });

  test.each([
    ["pieces of a byte", data(1, Buffer.from("x"))],
    ["interim responses", headers(1, status("103"))],
  ])("in %s without end ends the connection", async (what, frame) => {
    const service = await RawServer.start();
    const { call } = clientOf([service.port], { clock: new FakeClock() });
    const outcome = call();
    const peer = await service.peer();
    await peer.until(FrameType.Data);
    if (what === "pieces of a byte") peer.send(headers(1, responseHead), data(1, framed(ok).subarray(0, 4)));
    peer.send(Buffer.concat(new Array<Buffer>(10_100).fill(frame)));
    expect(await outcome).toMatchObject({ kind: "failed", cause: "unavailable" });
    expect((await peer.until(FrameType.GoAway)).payload.readUInt32BE(4)).toBe(ErrorCode.EnhanceYourCalm);
  });

  test("may be preceded by interim responses", async () => {
    const service = await RawServer.start();
    const { call } = clientOf([service.port]);
    const outcome = call();
    const peer = await service.peer();
    await peer.until(FrameType.Data);
    peer.send(headers(1, status("103")), headers(1, status("100")));
    respond(peer, 1, ok);
    expect(await outcome).toEqual(responded);
  });
});

function count(length: number, from: number): number[] {
  return Array.from({ length }, (_, i) => from + i);
}

/** Returns the bytes in parts that end at the cuts, without parts beyond the end. */
function split(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const ends = [...cuts.filter((cut) => cut < bytes.length).sort((a, b) => a - b), bytes.length];
  return ends.map((end, at) => bytes.subarray(ends[at - 1] ?? 0, end));
}
