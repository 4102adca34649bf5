/** WebSocket and other switched protocols, end to end, with real clients and servers. */
import { once } from "node:events";
import { type ClientHttp2Session, connect as connectHttp2, type OutgoingHttpHeaders } from "node:http2";
import { connect } from "node:net";
import type { Duplex } from "node:stream";
import { describe, expect, onTestFinished, test } from "vitest";
import { WebSocket } from "ws";
import { respondWith, startBackend } from "../support/backend.ts";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  policyManifest,
  routeManifest,
  startGateway,
  type TestGatewayOptions,
} from "../support/gateway.ts";
import { rawHttp } from "../support/raw-http.ts";
import { requestUpgrade, startUpgradeBackend, startWebSocketBackend } from "../support/upgrades.ts";

const route = (port: number, filters = ""): string =>
  manifests(
    gatewayManifest(),
    backendManifest("b", port),
    routeManifest("r", [`{ backendRefs: [${backendRef("b")}]${filters} }`]),
  );

async function open(url: string, path = "/", protocols: string[] = []): Promise<WebSocket> {
  const client = new WebSocket(`${url.replace("http", "ws")}${path}`, protocols);
  onTestFinished(() => client.terminate());
  await once(client, "open");
  return client;
}

async function say(client: WebSocket, message: string | Buffer): Promise<string> {
  client.send(message);
  const [data] = (await once(client, "message")) as [Buffer];
  return data.toString("latin1");
}

async function closed(client: WebSocket): Promise<number> {
  const [code] = (await once(client, "close")) as [number];
  return code;
}

describe("a WebSocket", () => {
  test("passes messages of any size both ways, and its head arrives like that of any request", async () => {
    const backend = await startWebSocketBackend();
    const gateway = await startGateway(route(backend.port));
    const client = await open(gateway.url(), "/chat?room=1", ["v1"]);
    expect(client.protocol).toBe("v1");
    expect(await say(client, "hello")).toBe("hello");
    const large = Buffer.alloc(3_000_000, "x");
    expect((await say(client, large)).length).toBe(large.length);
    expect(backend.requests[0]).toMatchObject({
      method: "GET",
      url: "/chat?room=1",
      headers: { upgrade: "websocket", connection: "upgrade", "x-forwarded-for": "127.0.0.1" },
    });
  });

  test("is logged once, when it ends, with the number of bytes", async () => {
    const backend = await startWebSocketBackend();
    const gateway = await startGateway(route(backend.port));
    const client = await open(gateway.url());
    await say(client, "hello");
    expect(gateway.records).toEqual([]);
    const record = gateway.nextRecord();
    client.close(1000);
    expect(await closed(client)).toBe(1000);
    // A frame of the client: header, mask, payload; then its close frame. The server's frames have no mask.
    expect(await record).toMatchObject({
      status: 101,
      reason: undefined,
      backend: "Backend/default/b",
      requestBytes: 2 + 4 + 5 + (2 + 4 + 2),
      responseBytes: 2 + 5 + (2 + 2),
    });
  });

  test("is counted by a limit once, however many messages it passes", async () => {
    const backend = await startWebSocketBackend();
    const policy = policyManifest("p", "kind: HTTPRoute, name: r", ["{ requests: 1, unit: Minutes }"]);
    const gateway = await startGateway(manifests(route(backend.port), policy));
    const { head, socket } = await requestUpgrade(gateway.url(), "websocket", webSocketFields);
    expect(head).toMatch(/^HTTP\/1.1 101 [^]*\r\nx-ratelimit-remaining: 0/);
    const denied = await requestUpgrade(gateway.url(), "websocket", webSocketFields);
    expect(denied.head).toMatch(/^HTTP\/1.1 429 [^]*\r\nretry-after: 60[^]*\r\nconnection: close/i);
    expect(denied.rest).toBe("rate limit exceeded");
    expect(backend.requests.length).toBe(1);
    socket.destroy();
  });

  test("that the backend closes is closed for the client", async () => {
    const backend = await startWebSocketBackend((server) => server.close(4001, "enough"));
    const client = await open((await startGateway(route(backend.port))).url());
    expect(await closed(client)).toBe(4001);
  });

  test("whose client disconnects is closed for the backend", async () => {
    const { promise: gone, resolve } = Promise.withResolvers<number>();
    const backend = await startWebSocketBackend((server) => server.on("close", resolve));
    const client = await open((await startGateway(route(backend.port))).url());
    client.terminate();
    expect(await gone).toBe(1006);
  });

  test("whose client disconnects before it is open is closed at the backend", async () => {
    const received = Promise.withResolvers<undefined>();
    const left = Promise.withResolvers<undefined>();
    const backend = await startUpgradeBackend((_request, socket) => {
      socket.resume().on("error", () => undefined);
      socket.on("close", () => left.resolve(undefined));
      received.resolve(undefined);
    });
    const gateway = await startGateway(route(backend.port));
    const record = gateway.nextRecord();
    const client = connect(Number(new URL(gateway.url()).port), "127.0.0.1");
    client.write("GET / HTTP/1.1\r\nhost: example.com\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n");
    await received.promise;
    client.end();
    await left.promise;
    expect((await record).reason).toBe("ClientDisconnect");
  });

  test("whose backend resets it is reset, and the log names the side", async () => {
    const backend = await startUpgradeBackend((_request, socket) => {
      socket.write(switching("websocket"));
      // A reset instead of a close.
      socket.once("data", () => (socket as Duplex & { resetAndDestroy(): void }).resetAndDestroy());
    });
    const gateway = await startGateway(route(backend.port));
    const { socket } = await requestUpgrade(gateway.url(), "websocket", webSocketFields);
    const record = gateway.nextRecord();
    socket.write("x");
    expect((await record).reason).toBe("UpstreamReset");
  });

  test("stays open over a change of configuration, and a drain waits for it", async () => {
    const backend = await startWebSocketBackend();
    const gateway = await startGateway(route(backend.port));
    const client = await open(gateway.url());
    await gateway.apply(gatewayManifest());
    expect(await say(client, "still here")).toBe("still here");
    let isDrained = false;
    const drained = gateway.dataPlane.drain().then(() => {
      isDrained = true;
    });
    expect(await say(client, "and here")).toBe("and here");
    expect(isDrained).toBe(false);
    client.close();
    await drained;
  });

  test("is not ended by the rule's timeouts once it is open", async () => {
    const backend = await startWebSocketBackend();
    const gateway = await startGateway(route(backend.port, ", timeouts: { request: 10s, backendRequest: 5s }"));
    const client = await open(gateway.url());
    gateway.clock.advance(60_000);
    expect(await say(client, "still here")).toBe("still here");
  });

  test("that the backend rejects gets its ordinary response", async () => {
    const { port } = await startBackend(respondWith(403, "no"));
    const gateway = await startGateway(route(port));
    const { head, rest } = await requestUpgrade(gateway.url(), "websocket", webSocketFields);
    expect(head).toMatch(/^HTTP\/1.1 403 /);
    expect(rest).toBe("no");
    expect(gateway.records[0]).toMatchObject({ status: 403, reason: undefined });
  });

  test("without a backend gets the same local reply as any request", async () => {
    const gateway = await startGateway(route(1));
    const { head } = await requestUpgrade(gateway.url(), "websocket", webSocketFields);
    expect(head).toMatch(/^HTTP\/1.1 503 /);
  });

  test("passes filters in both directions", async () => {
    const backend = await startWebSocketBackend();
    const filters =
      ", filters: [{ type: RequestHeaderModifier, requestHeaderModifier: { set: [{ name: x-a, value: in }] } }, { type: ResponseHeaderModifier, responseHeaderModifier: { set: [{ name: x-b, value: out }] } }]";
    const gateway = await startGateway(route(backend.port, filters));
    const { head } = await requestUpgrade(gateway.url(), "websocket", webSocketFields);
    expect(head).toContain("\r\nx-b: out");
    expect(backend.requests[0]?.headers["x-a"]).toBe("in");
  });
});

const webSocketFields = "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

function switching(protocol: string): string {
  return `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ${protocol}\r\n\r\n`;
}

describe("any other protocol", () => {
  test("is passed byte for byte, from the first byte after the head", async () => {
    const backend = await startUpgradeBackend((_request, socket, head) => {
      socket.write(`${switching("tunnel/1")}welcome`);
      socket.unshift(head);
      socket.pipe(socket);
    });
    const gateway = await startGateway(route(backend.port), { upgradeProtocols: ["tunnel/1"] });
    const { socket, head, rest } = await requestUpgrade(gateway.url(), "Tunnel/1");
    expect(head).toMatch(/^HTTP\/1.1 101 [^]*upgrade: tunnel\/1/);
    let text = rest;
    socket.on("data", (chunk: Buffer) => {
      text += chunk.toString("latin1");
    });
    socket.end("\0\x01\xff");
    await once(socket, "close");
    expect(text).toBe(`welcome${Buffer.from("\0\x01\xff").toString("latin1")}`);
  });

  const unlisted = [
    "h2c",
    "HTTP/2.0",
    "TLS/1.0",
    "h2c, websocket",
    "websocket, h2c",
    "websocket/13",
    "tunnel",
    "connect-tcp",
  ];
  test.each(unlisted)("%s is not in the setting, and is not switched to", async (protocol) => {
    const { port, requests } = await startBackend(respondWith(200, "plain"));
    const gateway = await startGateway(route(port));
    const { head } = await requestUpgrade(gateway.url(), protocol, "HTTP2-Settings: AAMAAABkAAQAAP__\r\n");
    expect(head).toMatch(/^HTTP\/1.1 200 /);
    expect(requests[0]?.headers).not.toHaveProperty("upgrade");
    expect(requests[0]?.headers).not.toHaveProperty("http2-settings");
  });

  test("is not switched to before the response of an earlier request; both get their responses in order", async () => {
    const backend = await startBackend((request, response) => {
      setTimeout(() => response.end(request.url), request.url === "/slow" ? 50 : 0);
    });
    const gateway = await startGateway(route(backend.port));
    const { body } = await rawHttp(
      gateway.url(),
      "GET /slow HTTP/1.1\r\nHost: a\r\n\r\n" +
        "GET /next HTTP/1.1\r\nHost: a\r\nConnection: upgrade, close\r\nUpgrade: websocket\r\n\r\n",
    );
    expect(body).toMatch(/^\/slowHTTP\/1\.1 200 OK\r\n[^]*\/next$/);
  });

  test("in a head that is invalid gets a 400, and the connection is closed", async () => {
    const gateway = await startGateway(gatewayManifest());
    const response = await rawHttp(
      gateway.url(),
      "GET / HTTP/1.1\r\nHost: me@a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
    );
    expect(response.status).toBe(400);
  });

  test("is not switched to in a request with a body, which is served as a request", async () => {
    const { port, requests } = await startBackend();
    const gateway = await startGateway(route(port));
    const { status, body } = await rawHttp(
      gateway.url(),
      "POST / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\nContent-Length: 5\r\n\r\nhello",
    );
    expect([status, (JSON.parse(body) as { body: string }).body]).toEqual([200, "hello"]);
    expect(requests[0]?.headers).not.toHaveProperty("upgrade");
  });
});

test("a protocol is sent as the setting spells it, however the client spells it", async () => {
  const backend = await startUpgradeBackend((_request, socket) => socket.end(switching("WebSocket")));
  const gateway = await startGateway(route(backend.port));
  const { head } = await requestUpgrade(gateway.url(), "WEBSOCKET", webSocketFields);
  expect(head).toMatch(/^HTTP\/1.1 101 [^]*\r\nupgrade: websocket/);
  expect(backend.requests[0]?.headers.upgrade).toBe("websocket");
});

describe("a backend that switches", () => {
  test.each([
    ["to another protocol", "Upgrade: h2c\r\n"],
    ["to several", "Upgrade: websocket, h2c\r\n"],
    ["to two in separate fields", "Upgrade: websocket\r\nUpgrade: h2c\r\n"],
    ["without a protocol", ""],
  ])("%s gets the client a 502, and nothing of the connection", async (_case, fields) => {
    const backend = await startUpgradeBackend((_request, socket) => {
      socket.write(`HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n${fields}\r\nPRI * HTTP/2.0\r\n\r\n`);
    });
    const gateway = await startGateway(route(backend.port));
    const { head, rest } = await requestUpgrade(gateway.url(), "websocket", webSocketFields);
    expect(head).toMatch(/^HTTP\/1.1 502 /);
    expect(rest).toBe("the backend reset the connection");
    await expect.poll(() => gateway.records).toMatchObject([{ status: 502, reason: "UpstreamReset" }]);
  });
});

describe("extended CONNECT over HTTP/2 (RFC 8441)", () => {
  async function connectTo(port: number, options: TestGatewayOptions = {}) {
    const gateway = await startGateway(route(port), options);
    const session = connectHttp2(gateway.url());
    onTestFinished(() => session.destroy());
    await once(session, "remoteSettings");
    return { gateway, session };
  }

  /** The status of the response, once its stream is closed by both sides. */
  async function send(session: ClientHttp2Session, head: OutgoingHttpHeaders): Promise<unknown> {
    const stream = session.request({ ":method": "CONNECT", ":path": "/", ...head }, { endStream: false });
    const [response] = (await once(stream, "response")) as [Record<string, unknown>];
    stream.resume();
    await once(stream, "close");
    return response[":status"];
  }

  test.each([
    ["h2c", 501],
    ["H2C", 501],
    ["http", 501],
    ["TLS/1.0", 501],
    ["tls", 501],
    ["connect-tcp", 501],
    ["connect-udp", 501],
    ["WebSocket", 501],
    ["websocket/13", 501],
    ["websocket, h2c", 400],
    ["websocket,h2c", 400],
    ["h2c, websocket", 400],
    ["web socket", 400],
    ["websocket;h2c", 400],
    ["a/b/c", 400],
  ])("with :protocol %j gets %i, and no backend gets it", async (protocol, status) => {
    const backend = await startBackend(respondWith(200));
    const { gateway, session } = await connectTo(backend.port);
    expect(await send(session, { ":protocol": protocol })).toBe(status);
    expect(gateway.records).toMatchObject([{ status, reason: "BadRequest", method: "CONNECT", attempts: 0 }]);
    expect(backend.requests).toEqual([]);
    // The same connection serves other requests.
    const stream = session.request({ ":path": "/" }).resume();
    const [response] = (await once(stream, "response")) as [Record<string, unknown>];
    expect(response[":status"]).toBe(200);
  });

  test("without :protocol is rejected", async () => {
    const backend = await startBackend(respondWith(200));
    const { session } = await connectTo(backend.port);
    const stream = session.request({ ":method": "CONNECT", ":authority": "internal:80" }, { endStream: false });
    const [response] = (await once(stream, "response")) as [Record<string, unknown>];
    expect(response[":status"]).toBe(501);
    expect(backend.requests).toEqual([]);
  });

  test("with a length, which a backend would read from the tunnel, is rejected", async () => {
    const backend = await startWebSocketBackend();
    const { session } = await connectTo(backend.port);
    expect(await send(session, { ":protocol": "websocket", "content-length": "5" })).toBe(400);
    expect(backend.requests).toEqual([]);
  });

  test("sends one key, that of the proxy, whatever key the client sent", async () => {
    const backend = await startUpgradeBackend((_request, socket) => socket.end(switching("websocket")));
    const { session } = await connectTo(backend.port);
    const own = Buffer.from("the client's own").toString("base64");
    expect(await send(session, { ":protocol": "websocket", "sec-websocket-key": own })).toBe(200);
    const keys = backend.requests[0]?.rawHeaders.filter((_text, i, all) =>
      /^sec-websocket-key$/i.test(all[i - 1] ?? ""),
    );
    expect(keys).toHaveLength(1);
    expect(keys?.[0]).not.toBe(own);
  });

  test("serves the protocols of the setting", async () => {
    const backend = await startUpgradeBackend((_request, socket) => socket.end(switching("tunnel/1")));
    const { session } = await connectTo(backend.port, { upgradeProtocols: ["tunnel/1"] });
    expect(await send(session, { ":protocol": "tunnel/1" })).toBe(200);
    expect(await send(session, { ":protocol": "websocket" })).toBe(501);
    expect(backend.requests.map(({ headers }) => headers.upgrade)).toEqual(["tunnel/1"]);
  });

  test("reaches the backend as the HTTP/1.1 handshake and passes bytes both ways", async () => {
    const backend = await startUpgradeBackend((_request, socket) => {
      socket.write(switching("websocket").replace("\r\n\r\n", "\r\nSec-WebSocket-Accept: x\r\n\r\n"));
      socket.pipe(socket);
    });
    const gateway = await startGateway(route(backend.port));
    const session = connectHttp2(gateway.url());
    onTestFinished(() => session.destroy());
    await once(session, "remoteSettings");
    expect(session.remoteSettings.enableConnectProtocol).toBe(true);
    const stream = session.request({
      ":method": "CONNECT",
      ":protocol": "websocket",
      ":path": "/chat",
      "sec-websocket-version": "13",
    });
    const [head] = (await once(stream, "response")) as [Record<string, unknown>];
    expect(head[":status"]).toBe(200);
    expect(head).not.toHaveProperty("sec-websocket-accept");
    const record = gateway.nextRecord();
    stream.write("frame");
    const [data] = (await once(stream, "data")) as [Buffer];
    expect(data.toString()).toBe("frame");
    stream.end();
    expect(await record).toMatchObject({ httpVersion: "2", method: "GET", status: 200, reason: undefined });
    expect(gateway.records[0]).toMatchObject({ requestBytes: 5, responseBytes: 5 });
    const [request] = backend.requests;
    expect(request).toMatchObject({ method: "GET", url: "/chat", headers: { upgrade: "websocket" } });
    expect(Buffer.from(request?.headers["sec-websocket-key"] ?? "", "base64").length).toBe(16);
  });

  test("that is rejected does not affect other streams", async () => {
    const { port } = await startBackend(respondWith(404));
    const session = connectHttp2((await startGateway(route(port))).url());
    onTestFinished(() => session.destroy());
    await once(session, "remoteSettings");
    for (let i = 0; i < 2; i++) {
      const stream = session.request({ ":method": "CONNECT", ":protocol": "websocket", ":path": "/" });
      const [head] = (await once(stream, "response")) as [Record<string, unknown>];
      expect(head[":status"]).toBe(404);
      stream.close();
    }
  });
});
