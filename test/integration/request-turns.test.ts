/** A client that sends many costly requests at once does not delay those of others until all of them have begun. */
import { setImmediate as turn } from "node:timers/promises";
import { expect, test } from "vitest";
import { gatewayManifest, manifests, policyManifest, routeManifest, startGateway } from "../support/gateway.ts";
import { openFrom, type ProxiedClient } from "../support/proxied-client.ts";
import { clientPreface, endHeaders, endStream, frame, frameType, rootRequest } from "../support/raw-http2.ts";

const requests = 40;
const many = "10.0.0.1";
const get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const preface = Buffer.concat([Buffer.from(clientPreface), frame(frameType.settings, 0, 0)]);

/**
 * A gateway with a route whose requests are denied, each of which takes 20 ms of the clock of the worker.
 *
 * @param onFirst is called when the first one of `many` begins.
 */
async function startCostly(onFirst: () => void, clientMemory?: { connectionBytes: number; requestBytes: number }) {
  const begun: string[] = [];
  let connections = 0;
  const gateway = await startGateway(
    manifests(
      gatewayManifest(),
      routeManifest("r", ["{ filters: [{ type: RequestRedirect, requestRedirect: { hostname: b } }] }"]),
      policyManifest("p", "kind: HTTPRoute, name: r", ["{ requests: 1, unit: Hours, key: llm.requestModel }"]),
    ),
    {
      expectsProxyHeader: true,
      ...(clientMemory !== undefined && { clientMemory }),
      observer: {
        connectionOpened: () => void connections++,
        connectionClosed: () => void connections--,
        denied: ({ sourceAddress }) => {
          begun.push(sourceAddress);
          if (begun.length === 1) onFirst();
          gateway.clock.advance(20);
        },
      },
    },
  );
  const first = openFrom(gateway, "10.0.0.3", get);
  await expect.poll(first.text).toContain(" 302 ");
  const open = (address: string, text = ""): ProxiedClient => openFrom(gateway, address, text);
  return { gateway, begun, open, connections: () => connections };
}

const each = (frameOf: (stream: number) => Buffer): readonly Buffer[] =>
  Array.from({ length: requests }, (_, at) => frameOf(2 * at + 1));
const heads = Buffer.concat(each((stream) => frame(frameType.headers, endHeaders | endStream, stream, rootRequest)));
/** `POST /` */
const postRequest = Buffer.concat([Buffer.of(0x83), rootRequest.subarray(1)]);

/** Connections of one client, which begin their requests with the last part. */
const attacks = [
  { name: "streams of a connection", clients: 1, first: [preface], last: heads },
  {
    name: "header blocks whose last frames come together",
    clients: requests,
    first: [preface, frame(frameType.headers, endStream, 1, rootRequest)],
    last: frame(frameType.continuation, endHeaders, 1),
  },
  {
    name: "connections of HTTP/1",
    clients: requests,
    first: [Buffer.from("GET /")],
    last: Buffer.from(" HTTP/1.1\r\nHost: a\r\n\r\n"),
  },
  {
    name: "bodies over HTTP/2",
    clients: 1,
    first: [preface, ...each((stream) => frame(frameType.headers, endHeaders, stream, postRequest))],
    last: Buffer.concat(each((stream) => frame(frameType.data, endStream, stream, Buffer.from("{}")))),
  },
  {
    name: "bodies over HTTP/1",
    clients: requests,
    first: [Buffer.from("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{")],
    last: Buffer.from("}"),
  },
];

test.each(attacks)("a request of another client begins after a few of many $name", async ({ clients, first, last }) => {
  const { begun, open, connections } = await startCostly(() => other.socket.write(get));
  const other = open("10.0.0.2");
  const opened = Array.from({ length: clients }, () => {
    const client = open(many);
    client.socket.write(Buffer.concat(first));
    return client;
  });
  await expect.poll(connections).toBe(2 + clients);
  // Until the first parts have been read.
  for (let turns = 0; turns < 10; turns++) await turn();
  for (const { socket } of opened) socket.write(last);
  await expect.poll(other.text).toContain(" 429 ");
  await expect.poll(() => begun.length).toBe(requests + 1);
  expect(begun.indexOf("10.0.0.2")).toBeLessThan(requests / 2);
});

test("those of a client that leaves before their turn do not begin", async () => {
  const { begun, open, connections } = await startCostly(() => client.socket.destroy());
  const client = open(many);
  client.socket.write(Buffer.concat([preface, heads]));
  await expect.poll(() => begun.length).toBeGreaterThan(0);
  await expect.poll(connections).toBe(1);
  const count = begun.length;
  expect(count).toBeLessThan(requests);
  await expect.poll(open("10.0.0.2", get).text).toContain(" 429 ");
  expect(begun).toHaveLength(count + 1);
});

test("those that wait count in the memory of clients", async () => {
  const { gateway, open } = await startCostly(() => undefined, {
    connectionBytes: 512 * 1024,
    requestBytes: 96 * 1024,
  });
  const field = Buffer.concat([Buffer.of(0, 1, 0x61, 0x7f, 0xa1, 0x1e), Buffer.alloc(4_000, "x")]);
  const head = Buffer.concat([rootRequest, field]);
  const streams = Array.from({ length: requests }, (_, at) =>
    frame(frameType.headers, endHeaders | endStream, 2 * at + 1, head),
  );
  const clients = Array.from({ length: 4 }, () => open(many));
  for (const { socket } of clients) socket.write(Buffer.concat([preface, ...streams]));
  await expect.poll(() => gateway.shed).toContainEqual({ reason: "head", client: many });
});
