/**
 * One connection to an HTTP/2 endpoint carries the requests of all clients, so nothing that one client causes on its
 * own streams may end it.
 */
import { once } from "node:events";
import { get } from "node:http";
import { constants, createServer, type ServerHttp2Session, type ServerHttp2Stream, type Settings } from "node:http2";
import { type AddressInfo, connect, createServer as createTcpServer, type Socket } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { HpackDecoder } from "../../http/src/http2/hpack/hpack-decoder.ts";
import type { TestGatewayOptions } from "../support/gateway.ts";
import { startHttp2Gateway } from "../support/http2-gateway.ts";
import { openFrom, type ProxiedClient } from "../support/proxied-client.ts";
import {
  endHeaders,
  endStream,
  type Frame,
  frame,
  frameType,
  literalBlock,
  okHead,
  startRawHttp2Backend,
  uint32,
} from "../support/raw-http2.ts";

/** RFC 9113 §7 */
const protocolError = 1;
const enhanceYourCalm = 11;

/** A gateway, and its connection to an endpoint whose frames the test sends. */
async function startShared() {
  const frames: Frame[] = [];
  const sockets = new Set<Socket>();
  const port = await startRawHttp2Backend((received, socket) => {
    sockets.add(socket);
    frames.push(...received);
  });
  const gateway = await startHttp2Gateway([port]);
  const ofType = (type: number, stream?: number): readonly Frame[] =>
    frames.filter((each) => each.type === type && (stream ?? each.stream) === each.stream);
  const send = (...parts: readonly Buffer[]): void => {
    for (const socket of sockets) socket.write(Buffer.concat(parts));
  };
  /** Resolves with the response to another client, which waits on stream 1. */
  const waiting = fetch(`${gateway.url()}/waits`, { method: "POST", body: "a" });
  await expect.poll(() => ofType(frameType.headers).length).toBe(1);
  return { gateway, ofType, send, waiting, connections: () => sockets.size };
}

/** A gateway, and its connections to an endpoint that responds to each request. */
async function startResponding() {
  const sockets = new Set<Socket>();
  const port = await startRawHttp2Backend((frames, socket) => {
    sockets.add(socket);
    for (const { type, stream } of frames) {
      if (type === frameType.headers) socket.write(frame(frameType.headers, endHeaders | endStream, stream, okHead));
    }
  });
  const gateway = await startHttp2Gateway([port]);
  return { gateway, sockets };
}

interface CountedOptions extends TestGatewayOptions {
  readonly settings?: Settings;
  /** The endpoint says nothing before. */
  readonly accepts?: Promise<unknown>;
}

/** A gateway, and the numbers of connections and open streams of an endpoint. */
async function startCounted(
  onStream: (stream: ServerHttp2Stream, path: string | undefined) => void,
  { settings = {}, accepts, ...options }: CountedOptions = {},
) {
  const sessions: ServerHttp2Session[] = [];
  let streams = 0;
  const server = createServer({ settings });
  server.on("session", (session) => {
    sessions.push(session);
    session.on("error", () => undefined);
  });
  server.on("stream", (stream: ServerHttp2Stream, headers) => {
    streams++;
    stream.on("error", () => undefined).on("close", () => void streams--);
    onStream(stream, headers[":path"]);
  });
  const sockets: Socket[] = [];
  const listener = createTcpServer({ pauseOnConnect: true }, (socket) => {
    sockets.push(socket);
    void (accepts ?? Promise.resolve()).then(() => {
      server.emit("connection", socket);
      socket.resume();
    });
  });
  await once(listener.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => void listener.close());
  // A listening TCP server has such an address.
  const gateway = await startHttp2Gateway([(listener.address() as AddressInfo).port], options);
  const send = (address: string, path: string, fields = ""): ProxiedClient =>
    openFrom(gateway, address, `GET ${path} HTTP/1.1\r\nHost: a\r\n${fields}\r\n`);
  /** Sends as many requests as make the connection take no more, while others are open, and cancels them. */
  const cancelSome = async (address: string, open: number): Promise<void> => {
    await expect.poll(() => streams).toBe(open);
    const cancelled = Array.from({ length: 3 }, () => send(address, "/cancelled"));
    await expect.poll(() => streams).toBe(open + cancelled.length);
    for (const { socket } of cancelled) socket.destroy();
    await expect.poll(() => streams).toBe(open);
  };
  return { gateway, send, cancelSome, sessions, sockets, connections: () => sessions.length };
}

/** Two connections may take no more requests. */
const fewLeaving = {
  expectsProxyHeader: true,
  upstream: { maxLeaving: 2, maxConnections: 10, maxRequests: 100, maxWaiting: 100, maxWaitMs: 5_000 },
};

const respondOk = (stream: ServerHttp2Stream): void => stream.respond({ ":status": 200 }, { endStream: true });

test("frames of a response that its client has cancelled do not end the connection", async () => {
  const { gateway, ofType, send, waiting, connections } = await startShared();
  const cancelled = get(`${gateway.url()}/many`, (response) => void response.destroy()).on("error", () => undefined);
  await expect.poll(() => ofType(frameType.headers).length).toBe(2);
  send(frame(frameType.headers, endHeaders, 3, okHead));
  await expect.poll(() => ofType(frameType.rstStream, 3).length).toBe(1);
  // What the endpoint has sent before it knows, as servers of gRPC do: a frame for each message.
  const message = frame(frameType.data, 0, 3, Buffer.alloc(10));
  send(...Array.from({ length: 12_000 }, () => message));
  send(frame(frameType.headers, endHeaders | endStream, 1, okHead));
  expect((await waiting).status).toBe(200);
  expect(connections()).toBe(1);
  cancelled.destroy();
});

test("a response with a head that is too long ends its request only", async () => {
  const { gateway, ofType, send, waiting, connections } = await startShared();
  const tooLong = fetch(`${gateway.url()}/long`, { method: "POST", body: "a" });
  await expect.poll(() => ofType(frameType.headers).length).toBe(2);
  const fields = literalBlock(Array.from({ length: 150 }, () => ["x", "y".repeat(100)] as const));
  send(frame(frameType.headers, 0, 3, Buffer.concat([okHead, fields])));
  for (let part = 0; part < 5; part++) send(frame(frameType.continuation, part === 4 ? endHeaders : 0, 3, fields));
  expect((await tooLong).status).toBe(502);
  send(frame(frameType.headers, endHeaders | endStream, 1, okHead));
  expect((await waiting).status).toBe(200);
  expect(connections()).toBe(1);
});

test("streams that one client holds do not keep others waiting, where an endpoint accepts few on a connection", async () => {
  const held: ServerHttp2Stream[] = [];
  const { gateway } = await startCounted(
    (stream, path) => {
      if (path === "/held") held.push(stream);
      else respondOk(stream);
    },
    { settings: { maxConcurrentStreams: 2 } },
  );
  for (let count = 1; count <= 4; count++) {
    get(`${gateway.url()}/held`).on("error", () => undefined);
    await expect.poll(() => held.length).toBe(count);
  }
  expect((await fetch(`${gateway.url()}/other`)).status).toBe(200);
  held.forEach(respondOk);
});

/** Node rejects all requests on a connection on which 10 MB of responses wait (`maxSessionMemory`). */
test("a response that its client does not read fails requests of others once", async () => {
  const large = Buffer.alloc(20 << 20);
  const { gateway, send, sockets } = await startCounted(
    (stream, path) => {
      stream.respond({ ":status": 200 });
      stream.end(path === "/large" ? large : "");
    },
    { expectsProxyHeader: true },
  );
  const requests = (): number => gateway.dataPlane.endpoints().reduce((sum, each) => sum + each.requests, 0);
  const leaveUnread = async (): Promise<void> => {
    const before = requests();
    const unread = send("10.0.0.1", "/large");
    unread.socket.pause();
    await expect.poll(requests).toBe(before + 1);
    let sent = 0;
    const isStopped = (): boolean => {
      const before = sent;
      sent = sockets.reduce((sum, { bytesWritten }) => sum + bytesWritten, 0);
      return sent > 1 << 20 && sent === before;
    };
    await expect.poll(isStopped).toBe(true);
  };
  const statusOf = async (method: string): Promise<string> => {
    const { text } = openFrom(gateway, "10.0.0.2", `${method} / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n`);
    await expect.poll(text).toContain("HTTP/1.1 ");
    return text().slice(9, 12);
  };
  expect(await statusOf("POST")).toBe("200");
  await leaveUnread();
  expect(await statusOf("GET")).toBe("200");
  for (let round = 0; round < 3; round++) {
    await leaveUnread();
    for (let count = 0; count < 3; count++) expect(await statusOf("POST")).toBe("200");
  }
  expect(sockets.length).toBe(5);
});

test("requests that begin before an endpoint has said how few streams it accepts do not wait behind each other", async () => {
  const held: ServerHttp2Stream[] = [];
  const { promise: accepts, resolve: accept } = Promise.withResolvers<undefined>();
  const { gateway, send, connections } = await startCounted((stream) => void held.push(stream), {
    settings: { maxConcurrentStreams: 2 },
    accepts,
    expectsProxyHeader: true,
  });
  const clients = Array.from({ length: 5 }, (_, at) => send(`10.0.0.${at}`, "/held"));
  await expect.poll(() => gateway.dataPlane.endpoints().map(({ pending }) => pending)).toEqual([5]);
  accept(undefined);
  await expect.poll(() => held.length).toBe(5);
  expect(connections()).toBe(3);
  held.forEach(respondOk);
  for (const { text } of clients) await expect.poll(text).toContain("HTTP/1.1 200");
});

test("a connection gets as many calls as its own server accepts, where those of an endpoint accept different numbers", async () => {
  const held: ServerHttp2Stream[] = [];
  const { send, sessions, connections } = await startCounted((stream) => void held.push(stream), {
    settings: { maxConcurrentStreams: 1 },
    expectsProxyHeader: true,
  });
  const begin = async (count: number): Promise<ProxiedClient> => {
    const client = send(`10.0.0.${count}`, "/held");
    await expect.poll(() => held.length).toBe(count);
    return client;
  };
  const [first] = [await begin(1), await begin(2)];
  await new Promise<void>((resolve) => {
    sessions[1]?.settings({ maxConcurrentStreams: 100 }, () => resolve());
  });
  held.slice(0, 1).forEach(respondOk);
  await expect.poll(first.text).toContain("HTTP/1.1 200");
  await begin(3);
  await begin(4);
  expect(connections()).toBe(2);
});

test("requests are sent on other connections where a server rejects those beyond fewer than it has announced", async () => {
  const open = new Map<unknown, number>();
  let rejected = 0;
  const respond: ServerHttp2Stream[] = [];
  const { send } = await startCounted(
    (stream) => {
      const count = open.get(stream.session) ?? 0;
      if (count >= 4) {
        rejected++;
        stream.close(constants.NGHTTP2_REFUSED_STREAM);
        return;
      }
      open.set(stream.session, count + 1);
      respond.push(stream);
    },
    { expectsProxyHeader: true },
  );
  const clients = Array.from({ length: 30 }, (_, at) => send(`10.0.0.${at}`, "/held"));
  // None is served before all are open.
  await expect.poll(() => respond.length).toBe(clients.length);
  respond.forEach(respondOk);
  for (const { text } of clients) await expect.poll(text).toContain("HTTP/1.1 200");
  expect(rejected).toBeLessThanOrEqual(2 * clients.length);
});

test("connections that take no more requests are bounded, and the client that holds most of them makes room", async () => {
  const held: ServerHttp2Stream[] = [];
  const { gateway, send, cancelSome, connections } = await startCounted((stream, path) => {
    if (path === "/held") held.push(stream);
    else if (path === "/fast") respondOk(stream);
  }, fewLeaving);
  const { maxLeaving } = fewLeaving.upstream;
  const holding: ProxiedClient[] = [];
  for (let count = 1; count <= maxLeaving; count++) {
    holding.push(send("10.0.0.1", "/held"));
    await expect.poll(() => held.length).toBe(count);
    await cancelSome("10.0.0.1", count);
  }
  const waiting = send("10.0.0.1", "/held");
  await expect.poll(() => gateway.dataPlane.endpoints().map(({ pending }) => pending)).toEqual([3]);
  const other = send("10.0.0.2", "/fast");
  await expect.poll(() => other.text()).toContain("HTTP/1.1 200");
  await expect.poll(() => holding[1]?.text()).toContain("HTTP/1.1 503");
  expect(holding[0]?.text()).toBe("");
  // The connection that the other client has got has room.
  await expect.poll(() => held.length).toBe(maxLeaving + 1);
  expect(waiting.text()).toBe("");
  expect(connections()).toBe(maxLeaving + 1);
});

test("cancelled requests of one client do not make others wait for the long requests of many", async () => {
  const { send, cancelSome, connections } = await startCounted((stream, path) => {
    if (path === "/fast") respondOk(stream);
  }, fewLeaving);
  const { maxLeaving } = fewLeaving.upstream;
  const long: ProxiedClient[] = [];
  for (let count = 1; count <= maxLeaving + 1; count++) {
    long.push(send(`10.0.0.${count}`, "/long"));
    await cancelSome("10.1.0.1", count);
  }
  const other = send("10.2.0.1", "/fast");
  await expect.poll(other.text).toContain("HTTP/1.1 200");
  expect(long.map(({ text }) => text())).toEqual(["", "", ""]);
  expect(connections()).toBe(maxLeaving + 2);
});

test("requests with connections of their own use one after the other", async () => {
  const { gateway, sockets } = await startResponding();
  const send = async (value: string): Promise<void> => {
    expect((await fetch(gateway.url(), { headers: { x: value } })).status).toBe(200);
  };
  await send("a");
  for (let count = 0; count < 5; count++) await send("a".repeat(9_000));
  expect(sockets.size).toBe(2);
  gateway.clock.advance(600_000);
  await expect.poll(() => [...sockets].map(({ destroyed }) => destroyed)).toEqual([true, true]);
});

test("a request with a value in UTF-8 needs no connection of its own", async () => {
  const { gateway, sockets } = await startResponding();
  for (const value of ["a", Buffer.from("José").toString("latin1")]) {
    expect((await fetch(gateway.url(), { headers: { x: value } })).status).toBe(200);
  }
  expect(sockets.size).toBe(1);
});

test("a request that waits for a connection of its own delays no others that wait", async () => {
  const held = new Map<string | undefined, ServerHttp2Stream>();
  const { gateway, send: begin } = await startCounted((stream, path) => void held.set(path, stream), {
    settings: { maxConcurrentStreams: 1 },
    expectsProxyHeader: true,
    upstream: { maxLeaving: 1, maxConnections: 1, maxRequests: 100, maxWaiting: 100, maxWaitMs: 5_000 },
  });
  const pending = (): number => gateway.dataPlane.endpoints().reduce((sum, each) => sum + each.pending, 0);
  const send = async (address: string, path: string, fields = ""): Promise<ProxiedClient> => {
    const before = pending();
    const client = begin(address, path, fields);
    await expect.poll(pending).toBe(before + 1);
    return client;
  };
  const long = `x: ${"a".repeat(9_000)}\r\n`;
  const first = await send("10.0.0.2", "/first");
  await expect.poll(() => held.has("/first")).toBe(true);
  await send("10.0.0.1", "/own", long);
  await expect.poll(() => held.has("/own")).toBe(true);
  await send("10.0.0.1", "/waits", long);
  await send("10.0.0.3", "/second");
  held.get("/first")?.respond({ ":status": 200 }, { endStream: true });
  await expect.poll(first.text).toContain("HTTP/1.1 200");
  await expect.poll(() => held.has("/second")).toBe(true);
  expect(held.has("/waits")).toBe(false);
});

/** When servers end a connection, by the requests that they have got, none with a response, and their resets. */
const servers: Readonly<Record<string, (requests: number, resets: number) => boolean>> = {
  hyper: (_requests, resets) => resets > 20,
  Netty: (_requests, resets) => resets > 200,
  Tomcat: (requests, resets) => 50 * resets - 20 * requests > 100,
};

test.each(Object.keys(servers))("requests that a client cancels leave the connection of others to %s", async (name) => {
  const connections = new Set<Socket>();
  const begun: { readonly socket: Socket; readonly stream: number }[] = [];
  const counts = new Map<Socket, { requests: number; resets: number }>();
  const port = await startRawHttp2Backend((frames, socket) => {
    connections.add(socket);
    const count = counts.get(socket) ?? { requests: 0, resets: 0 };
    counts.set(socket, count);
    for (const { type, stream } of frames) {
      if (type === frameType.headers) {
        begun.push({ socket, stream });
        count.requests++;
      }
      if (type === frameType.rstStream) count.resets++;
    }
    if (servers[name]?.(count.requests, count.resets) === true) socket.destroy();
  });
  const gateway = await startHttp2Gateway([port]);
  const response = fetch(`${gateway.url()}/waits`, { method: "POST", body: "a" });
  await expect.poll(() => begun.length).toBe(1);
  const inProgress = (): number => gateway.dataPlane.endpoints().reduce((sum, { pending }) => sum + pending, 0);
  for (let round = 1; round <= 4; round++) {
    const clients = Array.from({ length: 80 }, () => {
      const client = connect(Number(new URL(gateway.url()).port), "127.0.0.1").on("error", () => undefined);
      client.write("GET /cancelled HTTP/1.1\r\nHost: a\r\n\r\n");
      return client;
    });
    await expect.poll(() => begun.length).toBe(1 + 80 * round);
    for (const client of clients) client.destroy();
    await expect.poll(inProgress).toBe(1);
  }
  expect(connections.size).toBeGreaterThan(1);
  const [first] = begun;
  first?.socket.write(frame(frameType.headers, endHeaders | endStream, first.stream, okHead));
  expect((await response).status).toBe(200);
});

/** Servers of Netty since 4.1.124, and others since CVE-2025-8671, count what they reset themselves. */
test("requests that a server resets for what they are leave the connection of others", async () => {
  const begun: { readonly socket: Socket; readonly stream: number }[] = [];
  const counts = new Map<Socket, number>();
  const port = await startRawHttp2Backend((frames, socket) => {
    for (const { type, flags, stream } of frames) {
      if (type !== frameType.headers) continue;
      begun.push({ socket, stream });
      if ((flags & endStream) === 0) continue;
      const count = (counts.get(socket) ?? 0) + 1;
      counts.set(socket, count);
      if (count > 200) socket.destroy();
      else socket.write(frame(frameType.rstStream, 0, stream, uint32(protocolError)));
    }
  });
  const gateway = await startHttp2Gateway([port]);
  const response = fetch(`${gateway.url()}/waits`, { method: "POST", body: "a" });
  await expect.poll(() => begun.length).toBe(1);
  for (let round = 0; round < 6; round++) {
    const rejected = Array.from({ length: 50 }, async () => (await fetch(`${gateway.url()}/malformed`)).status);
    expect(new Set(await Promise.all(rejected))).toEqual(new Set([502]));
  }
  const [first] = begun;
  first?.socket.write(frame(frameType.headers, endHeaders | endStream, first.stream, okHead));
  expect((await response).status).toBe(200);
});

/** Heads for which some servers end the connection (`ordinary-fields.ts`). */
const attacks: readonly (readonly [string, string])[] = [
  ["long fields", `x: ${"a".repeat(9_000)}\r\n`],
  ["many fields", Array.from({ length: 101 }, (_, at) => `x${at}: a\r\n`).join("")],
  ["a field that is no UTF-8", "x: \xff\r\n"],
];
const parts = ["the head", "the trailers"] as const;
test.each(parts.flatMap((part) => attacks.map(([name, fields]) => [name, part, fields] as const)))(
  "%s in %s of a request, for which servers end a connection, end no others",
  async (_, part, section) => {
    const begun: { readonly socket: Socket; readonly stream: number }[] = [];
    const ended: Socket[] = [];
    const decoders = new Map<Socket, HpackDecoder>();
    const port = await startRawHttp2Backend((frames, socket) => {
      const decoder = decoders.get(socket) ?? new HpackDecoder(4_096, 65_536);
      decoders.set(socket, decoder);
      for (const { type, flags, stream, payload } of frames) {
        if (type !== frameType.headers) continue;
        const fields = decoder.decode(payload, 0, payload.length);
        const text = fields.join("");
        if (fields.length > 200 || text.length > 8_192 || text.includes("\xff")) {
          ended.push(socket);
          socket.end(frame(frameType.goaway, 0, 0, Buffer.concat([uint32(stream), uint32(enhanceYourCalm)])));
          return;
        }
        if ((flags & endStream) === 0) begun.push({ socket, stream });
      }
    });
    const gateway = await startHttp2Gateway([port]);
    const response = fetch(`${gateway.url()}/waits`, { method: "POST", body: "a" });
    await expect.poll(() => begun.length).toBe(1);
    const isHead = part === "the head";
    const head = `POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n${isHead ? section : ""}\r\n`;
    const client = connect(Number(new URL(gateway.url()).port), "127.0.0.1");
    onTestFinished(() => void client.destroy());
    let received = "";
    client.on("data", (bytes: Buffer) => (received += bytes.toString()));
    client.write(`${head}0\r\n${isHead ? "" : section}\r\n`, "latin1");
    await expect.poll(() => received).toMatch(/^HTTP\/1.1 [45]/);
    const [first] = begun;
    expect(ended).not.toContain(first?.socket);
    expect(gateway.dataPlane.endpoints().map((endpoint) => endpoint.consecutiveFailures)).toEqual([0]);
    first?.socket.write(frame(frameType.headers, endHeaders | endStream, first.stream, okHead));
    expect((await response).status).toBe(200);
  },
);
