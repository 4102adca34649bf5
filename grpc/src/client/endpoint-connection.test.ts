import { systemClock } from "@gatewayproxy/runtime/clock";
import { ErrorCode, Flag, FrameType, Setting } from "@gatewayproxy/http/http2/frame";
import { rawFrame, uint32 } from "@gatewayproxy/http/http2/testing/raw-frame";
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { defaultClientLimits } from "@gatewayproxy/http/http2/client/client-limits";
import { RawServer } from "@gatewayproxy/http/http2/testing/raw-server";
import { UnaryGrpcClient } from "./unary-grpc-client.ts";
import { responded, clientOf, data, headers, ok, openPlainSocket, path, settings } from "./testing/calls.ts";
import { respond, responseHead } from "./testing/raw-service.ts";
import type { CallOutcome } from "./unary-client.ts";

describe("a connection", () => {
  test("acknowledges a ping with the same bytes, and settings", async () => {
    const service = await RawServer.start();
    clientOf([service.port]);
    const peer = await service.peer();
    const payload = Buffer.from([1, 2, 3, 4, 5, 0, 255, 8]);
    peer.send(rawFrame(FrameType.Ping, 0, 0, payload));
    expect(await peer.until(FrameType.Ping)).toMatchObject({ flags: Flag.Ack, payload });
    expect(peer.got(FrameType.Settings).map(({ flags }) => flags)).toEqual([0, Flag.Ack]);
  });

  test("that the service closes by GOAWAY finishes its calls; the others go on a new one, and no call fails", async () => {
    const service = await RawServer.start();
    const { call } = clientOf([service.port]);
    const warm = call();
    const peer = await service.peer();
    await peer.until(FrameType.Data);
    respond(peer, 1, ok);
    await warm;
    const outcomes = [call(), call()];
    await peer.until(FrameType.Data, 3);
    peer.send(rawFrame(FrameType.GoAway, 0, 0, Buffer.concat([uint32(3), uint32(ErrorCode.NoError)])));
    const next = await service.peer(2);
    await next.until(FrameType.Data);
    respond(next, 1, ok);
    respond(peer, 3, ok);
    expect(await Promise.all(outcomes)).toEqual([responded, responded]);
    await peer.closed();
  });

  test("fails a call only if the service rejects it unprocessed twice", async () => {
    const service = await RawServer.start();
    const { call } = clientOf([service.port]);
    const outcome = call();
    const peer = await service.peer();
    const rejection = uint32(ErrorCode.RefusedStream);
    await peer.until(FrameType.Data);
    peer.send(rawFrame(FrameType.RstStream, 0, 1, rejection));
    await peer.until(FrameType.Data, 2);
    peer.send(rawFrame(FrameType.RstStream, 0, 3, rejection));
    expect(await outcome).toMatchObject({ kind: "failed", cause: "unavailable" });
  });

  test("to a peer that does not acknowledge a ping after a timeout is closed, and the next one is used", async () => {
    const service = await RawServer.start();
    const clock = new FakeClock();
    const { call } = clientOf([service.port], { clock });
    const lost = call(Buffer.from("lost"), 100);
    const peer = await service.peer();
    await peer.until(FrameType.Data);
    clock.advance(100);
    await lost;
    expect(await peer.until(FrameType.Ping)).toMatchObject({ flags: 0 });
    clock.advance(1_000);
    await peer.closed();
    clock.advance(50);
    const next = await service.peer(2);
    const outcome = call();
    await next.until(FrameType.Data);
    respond(next, 1, ok);
    expect(await outcome).toEqual(responded);
  });

  test("to a peer that is only slow is kept", async () => {
    const service = await RawServer.start();
    const clock = new FakeClock();
    const { call } = clientOf([service.port], { clock });
    const late = call(Buffer.from("late"), 100);
    const peer = await service.peer();
    await peer.until(FrameType.Data);
    clock.advance(100);
    await late;
    const { payload } = await peer.until(FrameType.Ping);
    peer.send(rawFrame(FrameType.Ping, Flag.Ack, 0, payload));
    const next = call();
    await peer.until(FrameType.Data, 2);
    respond(peer, 3, ok);
    await next;
    clock.advance(1_000);
    const third = call();
    await peer.until(FrameType.Data, 3);
    respond(peer, 5, ok);
    expect([await third, service.peers.length]).toEqual([responded, 1]);
  });

  test("without settings in time is closed; a call that waits for it gets its own timeout", async () => {
    const service = await RawServer.start(Buffer.alloc(0));
    const clock = new FakeClock();
    const { call } = clientOf([service.port], { clock });
    const waiting = call(Buffer.from("ask"), 100);
    const peer = await service.peer();
    clock.advance(100);
    expect(await waiting).toMatchObject({ cause: "timeout" });
    const later = call(Buffer.from("ask"), 5_000);
    clock.advance(2_000);
    expect(await later).toMatchObject({ cause: "unavailable" });
    await peer.closed();
  });

  test("accepts no more calls for a peer that does not read them", async () => {
    const service = await RawServer.start(settings([Setting.InitialWindowSize, 2 ** 31 - 1]));
    const { call } = clientOf([service.port], { limits: { ...defaultClientLimits, maxWaitingBytes: 100_000 } });
    const peer = await service.peer();
    peer.send(rawFrame(FrameType.WindowUpdate, 0, 0, uint32(2 ** 30)));
    await peer.until(FrameType.Settings, 2);
    peer.socket.pause();
    const outcomes: CallOutcome[] = [];
    for (let sent = 0; outcomes.length === 0 && sent < 1_000; sent++) {
      void call(Buffer.alloc(60_000), 600_000).then((outcome) => outcomes.push(outcome));
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(outcomes[0]).toMatchObject({ cause: "unavailable", message: "the server does not read its requests" });
  });

  const raw = (type: number, streamId: number, payload: Uint8Array | string = "", flags = 0): Buffer =>
    rawFrame(type, flags, streamId, payload);
  test.each<readonly [string, Buffer, number]>([
    ["a frame that is too long", Buffer.from([0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1]), ErrorCode.FrameSizeError],
    ["a push", raw(FrameType.PushPromise, 1, uint32(2)), ErrorCode.ProtocolError],
    ["settings that enable push", settings([Setting.EnablePush, 1]), ErrorCode.ProtocolError],
    ["settings of a wrong size", raw(FrameType.Settings, 0, "12345"), ErrorCode.FrameSizeError],
    [
      "a window beyond what a window can be",
      settings([Setting.InitialWindowSize, 2 ** 31]),
      ErrorCode.FlowControlError,
    ],
    ["a window that grows too large", raw(FrameType.WindowUpdate, 0, uint32(2 ** 31 - 1)), ErrorCode.FlowControlError],
    ["a window that grows by nothing", raw(FrameType.WindowUpdate, 0, uint32(0)), ErrorCode.ProtocolError],
    ["a broken header block", headers(1, Buffer.from([0xff, 0xff, 0xff, 0xff])), ErrorCode.CompressionError],
    ["headers of a stream that is not open", headers(7, responseHead), ErrorCode.ProtocolError],
    ["headers of a stream of its own", headers(2, responseHead), ErrorCode.ProtocolError],
    ["data without a stream", data(0, ok), ErrorCode.ProtocolError],
    ["a continuation of nothing", raw(FrameType.Continuation, 1, responseHead), ErrorCode.ProtocolError],
    [
      "another frame within a header block",
      Buffer.concat([headers(1, responseHead, 0), raw(FrameType.Ping, 0, "12345678")]),
      ErrorCode.ProtocolError,
    ],
    [
      "header blocks without end",
      Buffer.concat([headers(1, responseHead, 0), ...new Array<Buffer>(40).fill(raw(FrameType.Continuation, 1))]),
      ErrorCode.EnhanceYourCalm,
    ],
    [
      "padding longer than its frame",
      raw(FrameType.Data, 1, Buffer.from([9, 1]), Flag.Padded),
      ErrorCode.ProtocolError,
    ],
    ["a ping of a wrong size", raw(FrameType.Ping, 0, "123"), ErrorCode.FrameSizeError],
    ["a reset of a wrong size", raw(FrameType.RstStream, 1, "123"), ErrorCode.FrameSizeError],
    ["a farewell of a wrong size", raw(FrameType.GoAway, 0, "123"), ErrorCode.FrameSizeError],
    [
      "pings without end",
      Buffer.concat(new Array<Buffer>(10_100).fill(raw(FrameType.Ping, 0, "12345678"))),
      ErrorCode.EnhanceYourCalm,
    ],
  ])("ends with an error when the peer sends %s", async (_, bytes, code) => {
    const service = await RawServer.start();
    // Time stands still: what a peer may send in it does not depend on how busy the machine is.
    const { call } = clientOf([service.port], { clock: new FakeClock() });
    const outcome = call();
    const peer = await service.peer();
    await peer.until(FrameType.Data);
    peer.send(bytes);
    expect(await outcome).toMatchObject({ kind: "failed", cause: "unavailable" });
    expect((await peer.until(FrameType.GoAway)).payload.readUInt32BE(4)).toBe(code);
  });

  test("ends when the first frame is not SETTINGS", async () => {
    const service = await RawServer.start(rawFrame(FrameType.Ping, 0, 0, "12345678"));
    const { call } = clientOf([service.port]);
    expect(await call()).toMatchObject({ cause: "unavailable" });
  });

  test("survives any bytes: every call ends, once", async () => {
    const kind = fc.nat({ max: 11 });
    const frame = fc
      .tuple(kind, fc.nat({ max: 255 }), fc.constantFrom(0, 1, 2, 3, 99), fc.uint8Array({ maxLength: 30 }))
      .map(([type, flags, id, payload]) => rawFrame(type, flags, id, payload));
    const junk = fc.oneof(
      frame,
      fc.uint8Array({ maxLength: 40 }).map((bytes) => Buffer.from(bytes)),
    );
    const service = await RawServer.start();
    await fc.assert(
      fc.asyncProperty(fc.array(junk, { maxLength: 12 }), async (parts) => {
        const client = new UnaryGrpcClient({
          clock: systemClock,
          random: () => 0,
          openSocket: openPlainSocket,
        });
        client.update({ endpoints: [{ host: "127.0.0.1", port: service.port }] });
        const ends: CallOutcome[] = [];
        client.call(path, Buffer.from("ask"), 10_000, (outcome) => ends.push(outcome));
        const peer = await service.peer(service.peers.length + 1);
        await peer.until(FrameType.Data);
        peer.send(...parts);
        peer.socket.end();
        await peer.closed();
        client.close();
        expect(ends).toHaveLength(1);
      }),
      { numRuns: 200 },
    );
  });
});
