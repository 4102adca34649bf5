import { FrameType } from "@gatewayproxy/http/http2/frame";
import { RawServer } from "@gatewayproxy/http/http2/testing/raw-server";
import { describe, expect, test } from "vitest";
import { responded, clientOf, ok } from "./testing/calls.ts";
import { respond } from "./testing/raw-service.ts";

describe("endpoints", () => {
  test("that are replaced finish their calls; new ones go to the new endpoint", async () => {
    const [old, young] = [await RawServer.start(), await RawServer.start()];
    const { call, update } = clientOf([old.port]);
    const first = call();
    const peer = await old.peer();
    await peer.until(FrameType.Data);
    update([young.port]);
    const second = call();
    const next = await young.peer();
    await next.until(FrameType.Data);
    respond(next, 1, ok);
    respond(peer, 1, ok);
    expect(await Promise.all([first, second])).toEqual([responded, responded]);
    await peer.closed();
  });

  test("share the calls, for any number of endpoints", async () => {
    const services = [await RawServer.start(), await RawServer.start()];
    let draw = 0;
    const { call } = clientOf(
      services.map(({ port }) => port),
      { random: () => (draw = (draw + 0.37) % 1) },
    );
    const peers = await Promise.all(services.map((service) => service.peer()));
    await Promise.all(peers.map((peer) => peer.until(FrameType.Settings, 2)));
    const outcomes = Array.from({ length: 40 }, () => call());
    await expect.poll(() => peers.map((peer) => peer.got(FrameType.Data).length)).toEqual([20, 20]);
    for (const peer of peers) for (const { streamId } of peer.got(FrameType.Data)) respond(peer, streamId, ok);
    expect(await Promise.all(outcomes)).toEqual(new Array(40).fill(responded));
  });

  test("fail no call if one of them is unreachable", async () => {
    const service = await RawServer.start();
    const dead = await RawServer.start();
    const { call } = clientOf([dead.port, service.port]);
    const peer = await service.peer();
    await peer.until(FrameType.Settings, 2);
    (await dead.peer()).socket.resetAndDestroy();
    await expect
      .poll(async () => {
        const outcome = call(Buffer.from("ask"), 50);
        const { length } = peer.got(FrameType.Data);
        await peer.until(FrameType.Data, length + 1);
        respond(peer, peer.got(FrameType.Data).at(-1)?.streamId ?? 0, ok);
        return outcome;
      })
      .toEqual(responded);
  });
});
