/**
 * A route of connections or sessions that leads back to its own listener ends them, instead of opening others without
 * end.
 */
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { expect, onTestFinished, test } from "vitest";
import type { Backend, StreamListener } from "../../proxy/src/ir/snapshot.ts";
import {
  openTcp,
  startStreams,
  type StreamGateway,
  streamBackend,
  streamBind,
  streamListener,
  streamRoute,
} from "../support/stream-gateway.ts";

/** A gateway whose listener has a route to itself. @param isEverywhere listens at every address. */
async function startLoop(protocol: "TCP" | "UDP", isEverywhere = false) {
  const transport = protocol === "UDP" ? "UDP" : undefined;
  const bindOf = (listener: StreamListener) => {
    const { address: own, ...rest } = streamBind([listener]);
    return isEverywhere || own === undefined ? rest : { address: own, ...rest };
  };
  const clientMemory = { connectionBytes: 300 * 16 * 1024, requestBytes: 1024 * 1024 };
  const streams = { tcpIdleTimeoutMs: 3_600_000, udpIdleTimeoutMs: 60_000, maxSessions: 100 };
  const gateway = await startStreams(
    { binds: [bindOf(streamListener(protocol, []))], backends: [] },
    { clientMemory, streams },
  );
  const port = gateway.dataPlane.portOf(isEverywhere ? undefined : "127.0.0.1", 9_000, transport) ?? 0;
  const backend: Backend = streamBackend("own", [port], { protocol: protocol === "UDP" ? "udp" : "tcp" });
  const route = streamRoute("loop", [backend], { kind: `${protocol}Route` });
  await gateway.apply({ binds: [bindOf(streamListener(protocol, [route]))], backends: [backend] });
  return { gateway, port };
}

function reasonsOf({ records }: StreamGateway): readonly unknown[] {
  return records.map(({ reason }) => reason);
}

test.each([false, true])("a connection that comes back is reset (at every address: %s)", async (isEverywhere) => {
  const { gateway, port } = await startLoop("TCP", isEverywhere);
  const client = await openTcp(port).catch(() => undefined);
  client?.resume().write("hello");
  await expect.poll(() => gateway.open.size === 0 && gateway.records.length > 0).toBe(true);
  expect(reasonsOf(gateway)).toContain("Loop");
  expect(gateway.records.length).toBeLessThan(6);
  expect(gateway.shed).toEqual([]);
});

test.each([false, true])("a datagram that comes back is dropped (at every address: %s)", async (isEverywhere) => {
  const { gateway, port } = await startLoop("UDP", isEverywhere);
  const client = createSocket("udp4").bind(0, "127.0.0.1");
  await once(client, "listening");
  onTestFinished(() => void client.close());
  client.send("hello", port, "127.0.0.1");
  await expect.poll(() => gateway.dropped).toEqual(["Loop"]);
  expect(gateway.open.size).toBe(1);
  // Sockets of sessions that have ended are those of others.
  gateway.clock.advance(62_000);
  await expect.poll(() => gateway.open.size).toBe(0);
});
