/** Limits of requests in progress: every way in which a request can end releases its place. */
import { once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import { connect as connectHttp2 } from "node:http2";
import { connect, type Socket } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { startBackend } from "../support/backend.ts";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  policyManifest,
  routeManifest,
  startGateway,
  type TestGateway,
} from "../support/gateway.ts";
import { globalPolicy } from "../support/global-policy.ts";
import { startScriptedService } from "../support/rate-limit-service.ts";

/** The requests that the backend has received and not responded to. */
class HeldBackend {
  readonly #held: ServerResponse[] = [];
  readonly #waiting: ((response: ServerResponse) => void)[] = [];

  readonly respond = (request: IncomingMessage, response: ServerResponse): void => {
    response.on("error", () => undefined);
    if (request.url === "/quick") {
      response.end("quick");
      return;
    }
    const waiting = this.#waiting.shift();
    if (waiting === undefined) this.#held.push(response);
    else waiting(response);
  };

  next(): Promise<ServerResponse> {
    const held = this.#held.shift();
    return held === undefined ? new Promise((resolve) => this.#waiting.push(resolve)) : Promise.resolve(held);
  }
}

interface Served {
  readonly gateway: TestGateway;
  readonly backend: HeldBackend;
}

async function serve(entry = "{ concurrent: 1 }", rule = "", ...others: readonly string[]): Promise<Served> {
  const backend = new HeldBackend();
  const { port } = await startBackend(backend.respond);
  const gateway = await startGateway(
    manifests(
      gatewayManifest(),
      backendManifest("b", port),
      routeManifest("chat", [`backendRefs: [${backendRef("b")}]${rule}`]),
      policyManifest("p", "kind: HTTPRoute, name: chat", [entry]),
      ...others,
    ),
  );
  return { gateway, backend };
}

/** Opens a connection and sends a request; the response is not read. */
function open(gateway: TestGateway, text = "GET /held HTTP/1.1\r\nHost: a.example\r\n\r\n"): Socket {
  const { hostname, port } = new URL(gateway.url());
  const socket = connect(Number(port), hostname, () => socket.write(text));
  socket.on("error", () => undefined).resume();
  onTestFinished(() => void socket.destroy());
  return socket;
}

async function statusOf(gateway: TestGateway): Promise<number> {
  const response = await fetch(`${gateway.url()}/quick`);
  await response.arrayBuffer();
  return response.status;
}

/** Each begins when the backend has the only request that may be in progress, and ends it. */
const ends: Readonly<Record<string, (held: ServerResponse, client: Socket, served: Served) => unknown>> = {
  "the last byte of its response": (held) => held.end("whole"),
  "the end of a stream": async (held) => {
    held.write("first");
    await new Promise(setImmediate);
    held.end("last");
  },
  "a client that leaves before the response": (_held, client) => client.destroy(),
  "a client that resets its connection": (_held, client) => client.resetAndDestroy(),
  "a client that leaves in the middle of the response": async (held, client) => {
    held.write("first");
    await once(client, "data");
    client.destroy();
  },
  "a backend that closes its connection before the response": (held) => held.destroy(),
  "a backend that resets its connection in the middle of the response": async (held, client) => {
    held.write("first");
    await once(client, "data");
    held.socket?.resetAndDestroy();
  },
  "a response that is not HTTP": (held) => held.socket?.end("not HTTP\r\n\r\n"),
  "a timeout of the rule": (_held, _client, { gateway }) => gateway.clock.advance(10_000),
};

test.each(Object.entries(ends))("%s releases the place", async (_, end) => {
  const served = await serve("{ concurrent: 1 }", "\n      timeouts: { request: 5s }");
  const { gateway, backend } = served;
  // A request with this method is not retried.
  const client = open(gateway, "POST /held HTTP/1.1\r\nHost: a.example\r\nContent-Length: 0\r\n\r\n");
  const held = await backend.next();
  expect(await statusOf(gateway)).toBe(429);
  const ended = gateway.nextRecord();
  await end(held, client, served);
  await ended;
  expect([await statusOf(gateway), await statusOf(gateway)]).toEqual([200, 200]);
});

test("a denied request says when to ask again, and takes no place", async () => {
  const { gateway, backend } = await serve("{ concurrent: 2 }");
  open(gateway);
  await backend.next();
  const allowed = await fetch(`${gateway.url()}/quick`);
  expect(allowed.headers.get("x-ratelimit-remaining")).toBe("0");
  await allowed.arrayBuffer();
  open(gateway);
  await backend.next();
  for (let time = 0; time < 3; time++) {
    const denied = await fetch(`${gateway.url()}/quick`);
    expect([denied.status, denied.headers.get("retry-after"), await denied.text()]).toEqual([
      429,
      "1",
      "rate limit exceeded",
    ]);
    expect(denied.headers.get("x-ratelimit-limit")).toBe("2");
  }
});

test("each value of the key has its own places, and the amount may come from the request", async () => {
  const entry = `{ concurrent: 1, key: 'request.headers["x-user"]', limit: 'int(request.headers["x-places"])' }`;
  const { gateway, backend } = await serve(entry);
  const headers = (user: string, places: number): string =>
    `GET /held HTTP/1.1\r\nHost: a.example\r\nx-user: ${user}\r\nx-places: ${places}\r\n\r\n`;
  const quick = async (user: string, places: number): Promise<number> =>
    (await fetch(`${gateway.url()}/quick`, { headers: { "x-user": user, "x-places": String(places) } })).status;
  open(gateway, headers("ann", 1));
  await backend.next();
  expect([await quick("ann", 1), await quick("ben", 1), await quick("ann", 2)]).toEqual([429, 200, 200]);
});

test("a request that another limit denies has no place afterwards", async () => {
  const service = await startScriptedService(() => ({ overallCode: "OVER_LIMIT" }));
  const { gateway } = await serve(
    "{ concurrent: 1 }",
    "",
    globalPolicy(
      `address: '127.0.0.1:${service.port}', descriptors: [{ entries: [{ name: m, expression: request.method }] }]`,
    ),
  );
  expect([await statusOf(gateway), await statusOf(gateway)]).toEqual([429, 429]);
  expect(service.calls).toHaveLength(2);
});

test("a redirect and a local reply release the place", async () => {
  const gateway = await startGateway(
    manifests(
      gatewayManifest(),
      routeManifest("chat", [
        "matches: [{ path: { value: /away } }]\n      filters: [{ type: RequestRedirect, requestRedirect: { statusCode: 302, port: 1 } }]",
        "matches: [{ path: { value: /none } }]",
      ]),
      policyManifest("p", "kind: HTTPRoute, name: chat", ["{ concurrent: 1 }"]),
    ),
  );
  const get = async (path: string): Promise<number> =>
    (await fetch(`${gateway.url()}${path}`, { redirect: "manual" })).status;
  expect([await get("/away"), await get("/away"), await get("/none"), await get("/none")]).toEqual([
    302, 302, 500, 500,
  ]);
});

test("a stream of HTTP/2 that its client resets releases the place", async () => {
  const { gateway, backend } = await serve();
  const session = connectHttp2(gateway.url());
  onTestFinished(() => session.destroy());
  const stream = session.request({ ":path": "/held" });
  stream.on("error", () => undefined);
  await backend.next();
  expect(await statusOf(gateway)).toBe(429);
  const ended = gateway.nextRecord();
  stream.close(8);
  await ended;
  expect(await statusOf(gateway)).toBe(200);
});

test("a switched connection holds its place until it ends", async () => {
  const { gateway, backend: held } = await serve();
  const client = open(
    gateway,
    "GET /held HTTP/1.1\r\nHost: a.example\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
  );
  const response = await held.next();
  response.socket?.write("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
  await once(client, "data");
  expect(await statusOf(gateway)).toBe(429);
  const ended = gateway.nextRecord();
  client.destroy();
  await ended;
  expect(await statusOf(gateway)).toBe(200);
});

test("a response that is read for its usage after its client has left holds its place", async () => {
  const { gateway, backend } = await serve(
    "{ concurrent: 1 }",
    "",
    policyManifest("t", "kind: HTTPRoute, name: chat", ["{ tokens: 100000, unit: Hours }"]),
  );
  const body = JSON.stringify({ model: "m", messages: [] });
  const client = open(
    gateway,
    `POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  );
  const held = await backend.next();
  held.writeHead(200, { "content-type": "text/event-stream" }).write("data: {}\n\n");
  await once(client, "data");
  client.destroy();
  await once(client, "close");
  expect(await statusOf(gateway)).toBe(429);
  const ended = gateway.nextRecord();
  held.end('data: {"usage":{"total_tokens":5}}\n\n');
  expect(await ended).toMatchObject({ usage: { total: 5 } });
  expect(await statusOf(gateway)).toBe(200);
});

test("an entry in mode Shadow counts its places and denies nothing", async () => {
  const { gateway, backend } = await serve("{ concurrent: 1, mode: Shadow }");
  open(gateway);
  await backend.next();
  const ended = gateway.nextRecord();
  expect(await statusOf(gateway)).toBe(200);
  expect((await ended).decisions).toMatchObject([{ outcome: "shadowDenied" }]);
});
