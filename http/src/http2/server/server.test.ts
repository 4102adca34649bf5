/**
 * The server of HTTP/2 exchanges, through its sockets. Cases name the section of RFC 9113, RFC 9110 or RFC 8441 they
 * are about.
 */
import { once } from "node:events";
import type { ClientHttp2Session, ClientHttp2Stream, IncomingHttpHeaders } from "node:http2";
import { setImmediate as turn } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { read } from "../../testing/receivers.ts";
import { ErrorCode, Flag, FrameType, Setting } from "../frame.ts";
import { encodeHeaderBlock } from "../hpack/hpack-encoder.ts";
import { type RawClient, requestBlock } from "../testing/raw-client.ts";
import { rawFrame, uint32 } from "../testing/raw-frame.ts";
import { type ExchangeHandler, serveExchanges } from "../testing/serve-exchanges.ts";
import type { Http2Exchange } from "./server-exchange.ts";

const ok: ExchangeHandler = (exchange) => {
  exchange.respond(200, ["x-a", "b"], "hello");
  return undefined;
};

/** Keeps requests without a response. */
function collect(begun: Http2Exchange[]): ExchangeHandler {
  return (exchange) => {
    begun.push(exchange);
    return undefined;
  };
}

interface Response {
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  readonly trailers: IncomingHttpHeaders;
}

async function receive(stream: ClientHttp2Stream): Promise<Response> {
  let trailers: IncomingHttpHeaders = {};
  stream.on("trailers", (fields: IncomingHttpHeaders) => (trailers = fields));
  const [headers] = (await once(stream, "response")) as [IncomingHttpHeaders];
  const chunks = (await stream.toArray()) as Buffer[];
  return { headers, body: Buffer.concat(chunks).toString(), trailers };
}

const get = (session: ClientHttp2Session, fields = {}): Promise<Response> =>
  receive(session.request({ ":path": "/", ...fields }));

const endOfRequest = Flag.EndStream | Flag.EndHeaders;
const getFrame = (id: number): Buffer => rawFrame(FrameType.Headers, endOfRequest, id, requestBlock());
const postFrame = (id: number, ...fields: readonly string[]): Buffer =>
  rawFrame(FrameType.Headers, Flag.EndHeaders, id, requestBlock(...fields));
const data = (id: number, text: string | Buffer, flags = 0): Buffer => rawFrame(FrameType.Data, flags, id, text);
const initialWindow = (bytes: number): Buffer =>
  rawFrame(FrameType.Settings, 0, 0, Buffer.concat([Buffer.from([0, Setting.InitialWindowSize]), uint32(bytes)]));
const openWindow = (id: number, bytes: number): Buffer => rawFrame(FrameType.WindowUpdate, 0, id, uint32(bytes));
const dataOf = ({ frames }: RawClient, id: number) =>
  frames.filter(({ type, streamId }) => type === FrameType.Data && streamId === id);
const bytesOf = (client: RawClient, id: number): number =>
  dataOf(client, id).reduce((sum, { payload }) => sum + payload.length, 0);

describe("a response", () => {
  test("has the date, unless it has one (RFC 9110 §6.6.1)", async () => {
    const { openSession } = await serveExchanges((exchange) => {
      exchange.respond(200, exchange.head.path === "/own" ? ["Date", "then"] : [], "");
      return undefined;
    });
    const session = openSession();
    expect((await get(session)).headers.date).toBe("Tue, 14 Nov 2023 22:13:20 GMT");
    expect((await get(session, { ":path": "/own" })).headers.date).toBe("then");
  });

  test("has names in lower case, and no field of an HTTP/1 connection (§8.2.2)", async () => {
    const { openSession } = await serveExchanges((exchange) => {
      exchange.respond(
        200,
        ["X-Upper", "1", "Connection", "close", "keep-alive", "x", "transfer-encoding", "chunked", "upgrade", "y"],
        "",
      );
      return undefined;
    });
    const { headers } = await get(openSession());
    expect(Object.keys(headers)).toEqual([":status", "x-upper", "date"]);
  });

  test.each([
    ["a name with a space", "x y", "1"],
    ["a value with a line break", "x", "1\r\n2"],
    ["a value outside of ISO 8859-1", "x", "\u4e16"],
  ])("with %s fails, and only its stream ends", async (_, name, value) => {
    const { openSession, faults } = await serveExchanges((exchange) => {
      exchange.respond(200, exchange.head.path === "/bad" ? [name, value] : [], "");
      return undefined;
    });
    const session = openSession();
    await expect(get(session, { ":path": "/bad" })).rejects.toThrow("INTERNAL_ERROR");
    expect(faults).toEqual([expect.any(TypeError)]);
    expect((await get(session)).headers[":status"]).toBe(200);
  });

  test.each([
    ["to HEAD", { ":method": "HEAD" }, 200],
    ["with 204", {}, 204],
    ["with 304", {}, 304],
  ])("%s has no body (RFC 9110 §6.4.1)", async (_, fields, status) => {
    const { openSession, completed } = await serveExchanges((exchange) => {
      if (exchange.head.path === "/parts") {
        exchange.start(status, []);
        exchange.write(Buffer.from("ignored"));
        exchange.end([]);
      } else {
        exchange.respond(status, [], "ignored");
      }
      return undefined;
    });
    const session = openSession();
    for (const path of ["/", "/parts"]) {
      expect(await get(session, { ...fields, ":path": path })).toMatchObject({ body: "" });
    }
    expect(completed).toEqual([true, true]);
  });

  test("may come in parts, after interim ones, and with trailers (RFC 9110 §6.5, §15.2)", async () => {
    const { openSession } = await serveExchanges((exchange) => {
      exchange.inform(103, ["link", "</a.css>"]);
      exchange.start(200, ["content-length", "6"]);
      exchange.write(Buffer.from("one"));
      exchange.write(Buffer.from("two"));
      exchange.end(["x-sum", "1"]);
      return undefined;
    });
    const stream = openSession().request({ ":path": "/" });
    const interim = once(stream, "headers");
    expect(await receive(stream)).toMatchObject({ body: "onetwo", trailers: { "x-sum": "1" } });
    expect((await interim)[0]).toMatchObject({ ":status": 103, link: "</a.css>" });
  });

  test("of several frames in one turn is one write", async () => {
    const { openSession, sockets } = await serveExchanges(ok);
    const session = openSession();
    await get(session);
    const [socket] = sockets;
    const written: unknown[] = [];
    const write = socket?.write.bind(socket);
    if (socket !== undefined && write !== undefined) {
      socket.write = ((bytes: Buffer, done: () => void) => {
        written.push(bytes);
        return write(bytes, done);
      }) as typeof socket.write;
    }
    await Promise.all([get(session), get(session), get(session)]);
    expect(written.length).toBeLessThan(3);
  });

  test("larger than one frame's header block continues (§6.10)", async () => {
    const { openSession } = await serveExchanges((exchange) => {
      exchange.respond(200, ["x-long", "v".repeat(40_000)], "");
      return undefined;
    });
    expect((await get(openSession())).headers["x-long"]).toBe("v".repeat(40_000));
  });

  test("before the end of the request resets the rest of it (§8.1)", async () => {
    const { openFrames, completed } = await serveExchanges(ok);
    const client = openFrames();
    client.send(postFrame(1));
    const reset = await client.frame(FrameType.RstStream, 1);
    expect(reset.payload.readUInt32BE()).toBe(ErrorCode.NoError);
    expect(completed).toEqual([true]);
  });

  test("that is reset is truncated, and is not complete", async () => {
    const { openFrames, completed } = await serveExchanges((exchange) => {
      exchange.start(200, []);
      exchange.write(Buffer.from("part"));
      exchange.reset();
      return undefined;
    });
    const client = openFrames();
    client.send(getFrame(1));
    expect((await client.frame(FrameType.RstStream, 1)).payload.readUInt32BE()).toBe(ErrorCode.InternalError);
    expect(bytesOf(client, 1)).toBe(4);
    await expect.poll(() => completed).toEqual([false]);
  });

  test("is complete when the kernel has taken it, and not before", async () => {
    const begun: Http2Exchange[] = [];
    const { openFrames, completed, sockets } = await serveExchanges(collect(begun));
    const client = openFrames();
    client.send(initialWindow(0x7fff_ffff), openWindow(0, 0x7fff_0000), getFrame(1));
    await expect.poll(() => begun.length).toBe(1);
    client.socket.pause();
    begun[0]?.respond(200, [], Buffer.alloc(64 * 1024 * 1024));
    await expect.poll(() => [...sockets][0]?.writableNeedDrain).toBe(true);
    expect(completed).toEqual([]);
    client.socket.resume();
    await expect.poll(() => completed).toEqual([true]);
  });

  test("of a client that disconnects before the kernel has taken it is not complete", async () => {
    const begun: Http2Exchange[] = [];
    const { openFrames, completed } = await serveExchanges(collect(begun));
    const client = openFrames();
    client.send(getFrame(1));
    await expect.poll(() => begun.length).toBe(1);
    client.socket.destroy();
    await expect.poll(() => completed).toEqual([false]);
    begun[0]?.respond(200, [], "late");
    expect(completed).toEqual([false]);
  });

  test("waits for the window of its stream, and reports when it continues (§5.2)", async () => {
    const begun: Http2Exchange[] = [];
    let drains = 0;
    const { openFrames } = await serveExchanges((exchange) => {
      begun.push(exchange);
      return { onDrain: () => drains++ };
    });
    const client = openFrames();
    client.send(initialWindow(10), getFrame(1));
    await expect.poll(() => begun.length).toBe(1);
    begun[0]?.start(200, []);
    expect(begun[0]?.write(Buffer.alloc(20))).toBe(true);
    expect(begun[0]?.write(Buffer.alloc(100_000))).toBe(false);
    await expect.poll(() => bytesOf(client, 1)).toBe(10);
    expect(begun[0]?.unreadBytes).toBe(100_010);
    expect(drains).toBe(0);
    client.send(openWindow(0, 200_000), openWindow(1, 200_000));
    await expect.poll(() => drains).toBe(1);
    begun[0]?.end([]);
    await expect.poll(() => dataOf(client, 1).at(-1)?.flags).toBe(Flag.EndStream);
    expect(bytesOf(client, 1)).toBe(100_020);
  });

  test("of many small parts that wait is sent in frames of the full length", async () => {
    const begun: Http2Exchange[] = [];
    const { openFrames } = await serveExchanges(collect(begun));
    const client = openFrames();
    client.send(initialWindow(0), getFrame(1));
    await expect.poll(() => begun.length).toBe(1);
    begun[0]?.start(200, []);
    for (let i = 0; i < 30_000; i++) begun[0]?.write(Buffer.from([i & 0xff]));
    begun[0]?.end([]);
    client.send(openWindow(1, 100_000));
    await expect.poll(() => bytesOf(client, 1)).toBe(30_000);
    expect(dataOf(client, 1).length).toBeLessThan(10);
    const sent = Buffer.concat(dataOf(client, 1).map(({ payload }) => payload));
    expect(sent.equals(Buffer.from(Array.from({ length: 30_000 }, (_, i) => i & 0xff)))).toBe(true);
  });

  test("shares the connection with others in turn, also after a large one", async () => {
    const begun: Http2Exchange[] = [];
    const { openFrames } = await serveExchanges(collect(begun));
    const client = openFrames();
    client.send(initialWindow(0x7fff_ffff), getFrame(1), getFrame(3));
    await expect.poll(() => begun.length).toBe(2);
    for (const exchange of begun) exchange.respond(200, [], Buffer.alloc(1_000_000));
    await expect.poll(() => bytesOf(client, 1)).toBe(65_535);
    for (let sent = 0; sent < 10; sent++) client.send(openWindow(0, 32_768));
    await expect.poll(() => bytesOf(client, 1) + bytesOf(client, 3)).toBe(65_535 + 327_680);
    expect(bytesOf(client, 3)).toBeGreaterThan(100_000);
  });
});

describe("the body of a request", () => {
  test("is absent if the head was the whole request", async () => {
    const bodies: unknown[] = [];
    const { openSession } = await serveExchanges((exchange) => {
      bodies.push(exchange.body, exchange.isReceiving);
      return ok(exchange);
    });
    await get(openSession());
    expect(bodies).toEqual([undefined, false]);
  });

  test("is delivered with its trailers (RFC 9110 §6.5)", async () => {
    const begun: Http2Exchange[] = [];
    const { openFrames } = await serveExchanges(collect(begun));
    const client = openFrames();
    client.send(postFrame(1), data(1, "one "), data(1, "two"));
    client.send(rawFrame(FrameType.Headers, endOfRequest, 1, encodeHeaderBlock(["x-sum", "1"])));
    await expect.poll(() => begun.length).toBe(1);
    const seen = read(begun[0]?.body);
    await expect.poll(() => seen).toEqual({ data: "one two", trailers: ["x-sum", "1"], isAborted: false });
    expect(begun[0]?.isReceiving).toBe(false);
  });

  test("asks for 100 (Continue) when it is read, and not before (RFC 9110 §10.1.1)", async () => {
    const begun: Http2Exchange[] = [];
    const { openFrames } = await serveExchanges(collect(begun));
    const client = openFrames();
    client.send(postFrame(1, "expect", "100-continue"), rawFrame(FrameType.Ping, 0, 0, Buffer.alloc(8)));
    await client.frame(FrameType.Ping);
    expect(client.frames.some(({ type }) => type === FrameType.Headers)).toBe(false);
    read(begun[0]?.body);
    await client.frame(FrameType.Headers, 1);
  });

  test("gets no window for bytes that are not read (§5.2)", async () => {
    const begun: Http2Exchange[] = [];
    const { openFrames, connections } = await serveExchanges(collect(begun), { streamWindowBytes: 40_000 });
    const client = openFrames();
    client.send(postFrame(1), data(1, Buffer.alloc(16_000)), data(1, Buffer.alloc(16_000)));
    client.send(rawFrame(FrameType.Ping, 0, 0, Buffer.alloc(8)));
    await client.frame(FrameType.Ping);
    expect(client.frames.some(({ type, streamId }) => type === FrameType.WindowUpdate && streamId === 1)).toBe(false);
    expect(connections[0]?.heldBytes).toBe(32_000);
    const seen = read(begun[0]?.body);
    await client.frame(FrameType.WindowUpdate, 1);
    expect(seen.data.length).toBe(32_000);
    expect(connections[0]?.heldBytes).toBe(0);
  });

  test("is held back while it is paused, and its end too", async () => {
    const begun: Http2Exchange[] = [];
    const { openFrames } = await serveExchanges(collect(begun));
    const client = openFrames();
    client.send(postFrame(1), data(1, "one"));
    await expect.poll(() => begun.length).toBe(1);
    const body = begun[0]?.body;
    const seen = read(body);
    await expect.poll(() => seen.data).toBe("one");
    body?.pause();
    client.send(data(1, "two", Flag.EndStream), rawFrame(FrameType.Ping, 0, 0, Buffer.alloc(8)));
    await client.frame(FrameType.Ping);
    expect(seen).toMatchObject({ data: "one", trailers: undefined });
    body?.resume();
    await expect.poll(() => seen).toMatchObject({ data: "onetwo", trailers: [] });
  });

  test("is aborted when the client resets the stream, or disconnects", async () => {
    const begun: Http2Exchange[] = [];
    const { openFrames, completed } = await serveExchanges(collect(begun));
    const client = openFrames();
    client.send(postFrame(1), postFrame(3));
    await expect.poll(() => begun.length).toBe(2);
    const seen = begun.map(({ body }) => read(body));
    client.send(rawFrame(FrameType.RstStream, 0, 1, uint32(ErrorCode.Cancel)));
    await expect.poll(() => seen[0]?.isAborted).toBe(true);
    expect(seen[1]?.isAborted).toBe(false);
    client.socket.destroy();
    await expect.poll(() => seen[1]?.isAborted).toBe(true);
    expect(completed).toEqual([false, false]);
  });

  test.each([
    ["shorter", "5", "abc"],
    ["longer", "2", "abc"],
  ])("%s than its content-length is malformed (§8.1.1)", async (_, length, text) => {
    const { openFrames, completed } = await serveExchanges((exchange) => void read(exchange.body));
    const client = openFrames();
    client.send(postFrame(1, "content-length", length), data(1, text, Flag.EndStream));
    expect(await client.errorCode()).toEqual({ frame: "RST_STREAM", code: ErrorCode.ProtocolError });
    await expect.poll(() => completed).toEqual([false]);
  });

  test("with too large trailers is rejected by the receiver", async () => {
    const rejected: unknown[] = [];
    const { openFrames } = await serveExchanges(
      (exchange) => {
        read(exchange.body);
        return {
          onBodyRejected: (status, message) => {
            rejected.push([status, message]);
            exchange.respond(status, [], "");
          },
        };
      },
      { maxTrailers: 2 },
    );
    const client = openFrames();
    const trailers = encodeHeaderBlock(["a", "1", "b", "2", "c", "3"]);
    client.send(postFrame(1), rawFrame(FrameType.Headers, endOfRequest, 1, trailers));
    await client.frame(FrameType.Headers, 1);
    expect(rejected).toEqual([[431, "trailers too large"]]);
  });
});

describe("a rejected request", () => {
  test("with too large fields gets 431, and its first fields are reported", async () => {
    const { openSession, tooLarge, heads } = await serveExchanges(ok, { maxHeaderListBytes: 1_000 });
    const session = openSession();
    const { headers } = await get(session, { ":path": "/large", "x-large": "v".repeat(1_500) });
    expect(headers[":status"]).toBe(431);
    expect(tooLarge[0]).toEqual(expect.arrayContaining([":path", "/large"]));
    expect(heads).toEqual([]);
    expect((await get(session)).headers[":status"]).toBe(200);
  });

  test("gets its message, or none where the window is closed", async () => {
    const { openFrames } = await serveExchanges((exchange) => {
      exchange.reject({ status: 400, message: "no" });
      return undefined;
    });
    const client = openFrames();
    client.send(getFrame(1), initialWindow(0), getFrame(3));
    const head = await client.frame(FrameType.Headers, 3);
    expect(head.flags & Flag.EndStream).toBe(Flag.EndStream);
    expect(dataOf(client, 1).map(({ payload }) => payload.toString())).toEqual(["no\n"]);
  });

  test.each([
    ["a method that is not a token", [":method", "G T", ":scheme", "http", ":path", "/"]],
    [":protocol twice", [":method", "CONNECT", ":protocol", "a", ":protocol", "a", ":scheme", "http", ":path", "/"]],
    ["CONNECT with a path", [":method", "CONNECT", ":authority", "a", ":path", "/"]],
    ["CONNECT without an authority", [":method", "CONNECT"]],
    ["a field of an HTTP/1 connection", [":method", "GET", ":scheme", "http", ":path", "/", "connection", "x"]],
    ["a name in upper case", [":method", "GET", ":scheme", "http", ":path", "/", "X", "x"]],
    ["a value that begins with a space", [":method", "GET", ":scheme", "http", ":path", "/", "x", " x"]],
  ])("with %s is malformed (§8)", async (_, fields) => {
    const { openFrames, heads } = await serveExchanges(ok);
    const client = openFrames();
    client.send(rawFrame(FrameType.Headers, endOfRequest, 1, encodeHeaderBlock(fields)));
    expect(await client.errorCode()).toEqual({ frame: "RST_STREAM", code: ErrorCode.ProtocolError });
    expect(heads).toEqual([]);
  });

  test("that fails when it begins ends its stream only", async () => {
    const fault = new Error("a fault");
    const { openSession, faults } = await serveExchanges((exchange) => {
      if (exchange.head.path === "/fails") throw fault;
      return ok(exchange);
    });
    const session = openSession();
    await expect(get(session, { ":path": "/fails" })).rejects.toThrow("INTERNAL_ERROR");
    expect(faults).toEqual([fault]);
    expect((await get(session)).body).toBe("hello");
  });
});

describe("a connection", () => {
  test("of HTTP/1 gets a 505 that does not mention gRPC", async () => {
    const { openFrames } = await serveExchanges(ok);
    const client = openFrames(false);
    client.send(Buffer.from("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
    await client.closed();
    expect(client.text).toMatch(/^HTTP\/1\.1 505 .*\r\n\r\nthe client selected HTTP\/2 in the TLS handshake/s);
    expect(client.text).not.toContain("gRPC");
  });

  test("that is asked to leave is still served, and gets GOAWAY before its first response too (§6.8)", async () => {
    const { server, openSession } = await serveExchanges(ok);
    const [before, after] = [openSession(), openSession()];
    await get(before);
    const goaways = [once(before, "goaway"), once(after, "goaway")];
    server.leave();
    for (const goaway of goaways) expect((await goaway)[0]).toBe(ErrorCode.NoError);
    const late = openSession();
    const [response, goaway] = await Promise.all([get(late), once(late, "goaway")]);
    expect(response.body).toBe("hello");
    expect(goaway[0]).toBe(ErrorCode.NoError);
  });

  test("that is drained ends after its last response, and serves what crosses the GOAWAY", async () => {
    const begun: Http2Exchange[] = [];
    const { server, openFrames } = await serveExchanges(collect(begun));
    const client = openFrames();
    client.send(getFrame(1));
    await expect.poll(() => begun.length).toBe(1);
    server.drain();
    client.send(getFrame(3));
    await expect.poll(() => begun.length).toBe(2);
    const ping = await client.frame(FrameType.Ping);
    client.send(rawFrame(FrameType.Ping, Flag.Ack, 0, ping.payload));
    await expect.poll(() => client.frames.filter(({ type }) => type === FrameType.GoAway).length).toBe(2);
    for (const exchange of begun) exchange.respond(200, [], "ok");
    await client.closed();
    expect([bytesOf(client, 1), bytesOf(client, 3)]).toEqual([2, 2]);
    expect(
      client.frames
        .filter(({ type }) => type === FrameType.GoAway)
        .at(-1)
        ?.payload.readUInt32BE(),
    ).toBe(3);
  });

  test("without a request is drained after its idle time, and closed if the client stays", async () => {
    const begun: Http2Exchange[] = [];
    const { openFrames, advance } = await serveExchanges(collect(begun), { idleTimeoutMs: 60_000 });
    const client = openFrames();
    client.send(getFrame(1));
    await expect.poll(() => begun.length).toBe(1);
    await advance(120);
    expect(client.frames.some(({ type }) => type === FrameType.GoAway)).toBe(false);
    begun[0]?.respond(200, [], "");
    await client.frame(FrameType.Headers, 1);
    await advance(61);
    await client.frame(FrameType.GoAway);
    await advance(21);
    await client.closed();
  });

  test("that ended is closed after a while, whether or not the client reads", async () => {
    const begun: Http2Exchange[] = [];
    const { server, openFrames, advance, sockets } = await serveExchanges(collect(begun));
    const client = openFrames();
    client.send(initialWindow(0x7fff_ffff), openWindow(0, 0x7fff_0000), getFrame(1));
    await expect.poll(() => begun.length).toBe(1);
    server.drain();
    const ping = await client.frame(FrameType.Ping);
    client.send(rawFrame(FrameType.Ping, Flag.Ack, 0, ping.payload));
    await expect.poll(() => client.frames.filter(({ type }) => type === FrameType.GoAway).length).toBe(2);
    client.socket.pause();
    const [socket] = sockets;
    begun[0]?.respond(200, [], Buffer.alloc(10 * 1024 * 1024));
    await expect.poll(() => socket?.writableNeedDrain).toBe(true);
    begun[0]?.reset();
    await expect.poll(() => socket?.writableEnded).toBe(true);
    await advance(59);
    expect(socket?.destroyed).toBe(false);
    await advance(3);
    await expect.poll(() => sockets.size).toBe(0);
  });

  test("is closed if too many of its requests are reset (CVE-2023-44487)", async () => {
    const begun: Http2Exchange[] = [];
    const { openFrames } = await serveExchanges(collect(begun), { resets: { burst: 10, perSecond: 1 } });
    const client = openFrames();
    for (let id = 1; id <= 23; id += 2) {
      client.send(getFrame(id), rawFrame(FrameType.RstStream, 0, id, uint32(ErrorCode.Cancel)));
    }
    expect(await client.errorCode()).toEqual({ frame: "GOAWAY", code: ErrorCode.EnhanceYourCalm });
    expect(begun.length).toBe(11);
  });

  test("is closed if it sends too many small DATA frames", async () => {
    const limits = { smallFrames: { bytes: 64, burst: 100, perSecond: 1 } };
    const { openFrames } = await serveExchanges((exchange) => void read(exchange.body), limits);
    const client = openFrames();
    client.send(postFrame(1), ...Array.from({ length: 120 }, () => data(1, "x")));
    expect(await client.errorCode()).toEqual({ frame: "GOAWAY", code: ErrorCode.EnhanceYourCalm });
  });

  test("knows its incomplete header block", async () => {
    const { openFrames, connections } = await serveExchanges(ok);
    const client = openFrames();
    client.send(rawFrame(FrameType.Headers, Flag.EndStream, 1, requestBlock()));
    await expect.poll(() => connections[0]?.openBlock).toBe(0);
    client.send(rawFrame(FrameType.Continuation, Flag.EndHeaders, 1), getFrame(3).subarray(0, 12));
    await expect.poll(() => connections[0]?.openBlock).toBe(1);
    client.send(getFrame(3).subarray(12));
    await expect.poll(() => connections[0]?.openBlock).toBe(undefined);
    await turn();
    expect(connections[0]?.heldBytes).toBe(0);
  });
});
