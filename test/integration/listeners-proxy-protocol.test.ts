/** The PROXY protocol, if a setting enables it: the client's address as the load balancer reports it. */
import { once } from "node:events";
import { connect } from "node:net";
import { expect, test } from "vitest";
import { type Echo, startBackend } from "../support/backend.ts";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  policyManifest,
  routeManifest,
  startGateway,
} from "../support/gateway.ts";
import { rawHttp } from "../support/raw-http.ts";

const request = "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";
const header = (address: string): string => `PROXY TCP4 ${address} 192.0.2.200 56324 80\r\n`;

async function start(policy = "") {
  const { port } = await startBackend();
  const texts = [
    gatewayManifest(),
    backendManifest("b", port),
    routeManifest("r", [`backendRefs: [${backendRef("b")}]`]),
  ];
  return startGateway(manifests(...texts, ...(policy === "" ? [] : [policy])), { expectsProxyHeader: true });
}

test("the header's address is the client address, upstream and in the log", async () => {
  const gateway = await start();
  const { body } = await rawHttp(gateway.url(), header("192.0.2.1") + request);
  expect((JSON.parse(body) as Echo).headers["x-forwarded-for"]).toBe("192.0.2.1");
  expect(gateway.records[0]?.sourceAddress).toBe("192.0.2.1");
});

test("a limit by source.address counts the clients behind one load balancer separately", async () => {
  const gateway = await start(
    policyManifest("p", "kind: HTTPRoute, name: r", ["{ requests: 1, unit: Minutes, key: source.address }"]),
  );
  const statusOf = async (address: string) => (await rawHttp(gateway.url(), header(address) + request)).status;
  expect(await statusOf("192.0.2.1")).toBe(200);
  expect(await statusOf("192.0.2.1")).toBe(429);
  expect(await statusOf("192.0.2.2")).toBe(200);
});

test("a header in pieces, and one in the same packet as HTTP/2's preface, are read", async () => {
  const gateway = await start();
  const socket = connect(Number(new URL(gateway.url()).port), "127.0.0.1").setNoDelay(true);
  for (const piece of ["PROXY TC", "P4 192.0.2.1 192.0.2.200 1 80\r", "\nGE", request.slice(2)]) {
    socket.write(piece);
    await new Promise((resolve) => setImmediate(resolve));
  }
  await once(socket, "data");
  socket.destroy();

  const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
  const http2 = connect(Number(new URL(gateway.url()).port), "127.0.0.1");
  http2.write(header("192.0.2.1") + preface);
  const [settings] = (await once(http2, "data")) as [Buffer];
  // RFC 9113 §6.5: the server's first frame is SETTINGS.
  expect(settings.readUInt8(3)).toBe(4);
  http2.destroy();
});

test("a connection without a header is closed without a response", async () => {
  const gateway = await start();
  expect((await rawHttp(gateway.url(), request)).status).toBe(0);
});

test.each(["", "PROXY TCP4 192.0.2.1"])(
  "a connection whose header does not arrive within 10 s is closed: %j",
  async (sent) => {
    const gateway = await start();
    const [opened, other] = [0, 0].map(() => connect(Number(new URL(gateway.url()).port), "127.0.0.1"));
    if (opened === undefined || other === undefined) throw new Error("no socket");
    const closed = once(
      opened.resume().on("error", () => undefined),
      "close",
    );
    opened.write(sent);
    // The gateway has accepted the first connection before it responds to the second one.
    other.write(header("192.0.2.1") + request);
    await once(other, "data");
    gateway.clock.advance(10_000);
    await closed;
  },
);
