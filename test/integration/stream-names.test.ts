/**
 * The address rules of a cluster hold for relayed connections and sessions after the resolution of a name, each time
 * that it is resolved: the owner of a domain cannot lead them to the machine of the proxy.
 */
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { AddressGuard, type AddressRules } from "@gatewayproxy/runtime/address-rules";
import { expect, onTestFinished, test } from "vitest";
import type { Backend } from "../../proxy/src/ir/snapshot.ts";
import {
  openTcp,
  readAll,
  startStreams,
  startTcp,
  streamBackend,
  streamBind,
  streamListener,
  streamRoute,
} from "../support/stream-gateway.ts";

/** A Backend with a host name. */
function named(name: string, port: number, rest: Partial<Backend> = {}): Backend {
  return streamBackend(name, [], {
    ...{ kind: "Backend", key: `Backend/default/${name} over ${rest.protocol ?? "tcp"}` },
    endpoints: [{ name, host: "rebinding.example", port }],
    ...rest,
  });
}

/** The rules in a cluster in which the operator has allowed one address. */
function clusterWith(port: number): AddressRules {
  return { own: [], deniesSpecial: true, allowed: [{ host: "127.0.0.1", port }] };
}

const special = [["127.0.0.2"], ["::ffff:127.0.0.2", "::1"], ["169.254.169.254"], ["64:ff9b::7f00:2"]];

test("a connection is closed if the name of its backend leads to a special address, each time it is resolved", async () => {
  const { port } = await startTcp((socket) => socket.resume().end("reached"));
  let addresses: readonly string[] = ["127.0.0.1"];
  const backend = named("b", port);
  const gateway = await startStreams(
    { binds: [streamBind([streamListener("TCP", [streamRoute("r", [backend])])])], backends: [backend] },
    {
      addresses: new AddressGuard(clusterWith(port)),
      resolveName: () => Promise.resolve({ addresses, ttlMs: 1_000 }),
    },
  );
  const outcome = async () => {
    const ended = gateway.ended();
    // The reset may be seen before the connection.
    const text = await openTcp(gateway.port())
      .then((client) => readAll(client.end()))
      .catch(() => "");
    const [record] = await ended;
    return { text, reason: record?.reason };
  };
  expect(await outcome()).toMatchObject({ text: "reached" });
  for (const found of special) {
    addresses = found;
    gateway.clock.advance(1_000);
    // The result of the resolution arrives in a later turn.
    await new Promise(setImmediate);
    expect(await outcome()).toEqual({ text: "", reason: "ForbiddenAddress" });
  }
});

test("a datagram is dropped if the name of its backend leads to a special address, each time it is resolved", async () => {
  const server = createSocket("udp4").bind(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  server.on("message", (datagram, from) => server.send(datagram, from.port, from.address));
  const { port } = server.address();
  let addresses: readonly string[] = ["127.0.0.1"];
  const backend = named("b", port, { protocol: "udp" });
  const gateway = await startStreams(
    {
      binds: [streamBind([streamListener("UDP", [streamRoute("r", [backend], { kind: "UDPRoute" })])])],
      backends: [backend],
    },
    {
      addresses: new AddressGuard(clusterWith(port)),
      resolveName: () => Promise.resolve({ addresses, ttlMs: 1_000 }),
    },
  );
  const client = async () => {
    const socket = createSocket("udp4").bind(0, "127.0.0.1");
    await once(socket, "listening");
    onTestFinished(() => void socket.close());
    return socket;
  };
  const first = await client();
  first.send("hello", gateway.port(9_000, "UDP"), "127.0.0.1");
  await once(first, "message");
  for (const [at, found] of special.entries()) {
    addresses = found;
    gateway.clock.advance(1_000);
    await new Promise(setImmediate);
    (await client()).send("hello", gateway.port(9_000, "UDP"), "127.0.0.1");
    await expect.poll(() => gateway.dropped.length).toBe(at + 1);
    expect(gateway.dropped.at(-1)).toBe("ForbiddenAddress");
  }
});
