/** The server of HTTP/1, through its sockets. Each case names the section of RFC 9112 or RFC 9110 that it is about. */
import type { Socket } from "node:net";
import { Duplex } from "node:stream";
import { setImmediate as turn } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import type { IncomingBody } from "../ports.ts";
import { read } from "../testing/receivers.ts";
import type { Http1Exchange } from "./server-exchange.ts";
import { type Handler, serve, type TestClient } from "./testing/serve.ts";

const get = (path = "/", fields = ""): string => `GET ${path} HTTP/1.1\r\nHost: a\r\n${fields}\r\n`;
const post = (body: string, fields = ""): string =>
  `POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${body.length}\r\n${fields}\r\n${body}`;
const chunked = (body: string): string => `POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n${body}`;

/** Responds with the path. */
const echoPath: Handler = (exchange) => exchange.respond(200, [], `${exchange.head.target}\n`);

/** Keeps requests without a response. */
function collect(begun: Http1Exchange[]): Handler {
  return (exchange) => begun.push(exchange);
}

const statuses = ({ text }: TestClient): readonly string[] => text().match(/HTTP\/1\.1 \d{3}/g) ?? [];
/** The lines of the first head, without the date. */
const headOf = ({ text }: TestClient): readonly string[] =>
  (text().split("\r\n\r\n")[0] ?? "").split("\r\n").filter((line) => !line.startsWith("date: "));
const bodyOf = ({ text }: TestClient): string => text().slice(text().indexOf("\r\n\r\n") + 4);

const keepAlive = ["connection: keep-alive", "keep-alive: timeout=75"];

describe("responses", () => {
  test("have the length of their body (RFC 9112 §6.2)", async () => {
    const { open } = await serve((exchange) => exchange.respond(200, ["x-a", "b"], "hello"));
    const client = open(get());
    await expect.poll(client.text).toMatch(/hello$/);
    expect(headOf(client)).toEqual(["HTTP/1.1 200 OK", "x-a: b", "content-length: 5", ...keepAlive]);
    expect(client.text()).toContain("\r\ndate: Tue, 14 Nov 2023 22:13:20 GMT\r\n");
  });

  test("keep their own date (RFC 9110 §6.6.1)", async () => {
    const { open } = await serve((exchange) => exchange.respond(200, ["Date", "then"], ""));
    const client = open(get());
    await expect.poll(client.text).toContain("\r\n\r\n");
    expect(client.text().match(/date/gi)).toEqual(["Date"]);
  });

  test("of a text outside of ASCII have its length in UTF-8", async () => {
    const { open } = await serve((exchange) => exchange.respond(200, [], "é"));
    const client = open(get());
    await expect.poll(() => bodyOf(client)).toBe("\u00c3\u00a9");
    expect(headOf(client)).toContain("content-length: 2");
  });

  test.each([
    ["to HEAD", "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", 200],
    ["with 204", get(), 204],
    ["with 304", get(), 304],
  ])("%s have no body (RFC 9110 §6.4.1)", async (_, request, status) => {
    const { open } = await serve((exchange) => {
      if (exchange.head.target === "/next") echoPath(exchange);
      else exchange.respond(status, [], "ignored");
    });
    const client = open(request + get("/next"));
    await expect.poll(() => statuses(client).length).toBe(2);
    expect(headOf(client)).toEqual([expect.stringMatching(`^HTTP/1.1 ${status} `), ...keepAlive]);
    await expect.poll(client.text).toMatch(/\r\n\r\n\/next\n$/);
    expect(client.text()).not.toContain("ignored");
  });

  test("in parts are sent in chunks, with trailers (RFC 9112 §7.1)", async () => {
    const { open } = await serve((exchange) => {
      exchange.start(200, ["trailer", "x-t"]);
      exchange.write(Buffer.from("hello"));
      exchange.write(Buffer.alloc(20_000, "x"));
      exchange.end(["x-t", "1"]);
    });
    const client = open(get());
    await expect.poll(client.text).toMatch(/\r\n0\r\nx-t: 1\r\n\r\n$/);
    expect(headOf(client)).toEqual(["HTTP/1.1 200 OK", "trailer: x-t", "transfer-encoding: chunked", ...keepAlive]);
    expect(bodyOf(client)).toBe(`5\r\nhello\r\n4e20\r\n${"x".repeat(20_000)}\r\n0\r\nx-t: 1\r\n\r\n`);
  });

  test("that are complete have the framing of those in parts", async () => {
    const { open } = await serve((exchange) => {
      if (exchange.head.target === "/known") exchange.forward(200, ["content-length", "5"], Buffer.from("known"));
      else exchange.forward(200, [], Buffer.from("hello"));
    });
    const client = open(get() + get("/known"));
    await expect.poll(client.text).toMatch(/known$/);
    expect(client.text()).toContain("\r\n\r\n5\r\nhello\r\n0\r\n\r\nHTTP/1.1 200 OK");
    expect(client.text()).toMatch(
      /content-length: 5\r\ndate: [^\n]+\nconnection: keep-alive\r\nkeep-alive: timeout=75\r\n\r\nknown$/,
    );
  });

  test("with a head alone reach the client before their body", async () => {
    let begun: Http1Exchange | undefined;
    const { open } = await serve((exchange) => {
      begun = exchange;
      exchange.start(200, []);
    });
    const client = open(get());
    await expect.poll(client.text).toContain("transfer-encoding: chunked");
    begun?.end([]);
    await expect.poll(client.text).toMatch(/\r\n\r\n0\r\n\r\n$/);
  });

  test.each([
    ["fewer", "5", "abc"],
    ["more", "2", "abc"],
  ])("with %s bytes than their length end the connection (RFC 9112 §6.3)", async (_, length, body) => {
    const { open, completed } = await serve((exchange) => {
      exchange.start(200, ["content-length", length]);
      exchange.write(Buffer.from(body));
      exchange.end([]);
    });
    const client = open(get() + get());
    await client.ended;
    expect(statuses(client)).toHaveLength(1);
    expect(bodyOf(client).length).toBeLessThanOrEqual(Number(length));
    expect(completed).toEqual([false]);
  });

  test("can have interim responses before them (RFC 9110 §15.2)", async () => {
    const { open } = await serve((exchange) => {
      exchange.inform(103, ["link", "</a.css>; rel=preload"]);
      exchange.respond(200, [], "ok");
    });
    const [client, old] = [open(get()), open("GET / HTTP/1.0\r\n\r\n")];
    await expect.poll(client.text).toMatch(/ok$/);
    expect(client.text()).toMatch(
      /^HTTP\/1\.1 103 Early Hints\r\nlink: <\/a\.css>; rel=preload\r\n\r\nHTTP\/1\.1 200 OK/,
    );
    await old.ended;
    // HTTP/1.0 has none.
    expect(statuses(old)).toEqual(["HTTP/1.1 200"]);
  });

  test.each([
    ["a line break in a value", "x-a", "b\r\nx-c: d"],
    ["a bare LF in a value", "x-a", "b\nx"],
    ["NUL in a value", "x-a", "\0"],
    ["a character that latin1 would make a line break", "x-a", "\u010d\u010a"],
    ["a colon in a name", "x:a", "b"],
    ["a line break in a name", "x\r\na", "b"],
    ["an empty name", "", "b"],
  ])("with %s are not sent", async (_, name, value) => {
    const { open, faults } = await serve((exchange) => exchange.respond(200, [name, value], ""));
    const client = open(get());
    await client.ended;
    expect(client.text()).toBe("");
    expect(faults).toEqual([expect.any(TypeError)]);
  });

  test("leave out the fields of the connection", async () => {
    const fields = ["Connection", "x", "keep-alive", "x", "Transfer-Encoding", "gzip"];
    const { open } = await serve((exchange) => exchange.respond(200, fields, ""));
    const client = open(get());
    await expect.poll(client.text).toContain("\r\n\r\n");
    expect(headOf(client)).toEqual(["HTTP/1.1 200 OK", "content-length: 0", ...keepAlive]);
  });

  test("to a slow client are held back", async () => {
    let isHeldBack = false;
    let drained = 0;
    const handle = (exchange: Http1Exchange): void => {
      exchange.start(200, []);
      while (exchange.unreadBytes === 0) exchange.write(Buffer.alloc(64 * 1024));
      isHeldBack = !exchange.write(Buffer.alloc(64 * 1024));
    };
    const { open, completed } = await serve(handle, (exchange) => ({
      onDrain: () => {
        drained++;
        exchange.end([]);
      },
    }));
    const client = open();
    client.socket.pause();
    client.socket.write(get());
    await expect.poll(() => isHeldBack).toBe(true);
    await turn();
    expect(completed).toEqual([]);
    client.socket.resume();
    await expect.poll(() => completed).toEqual([true]);
    expect(drained).toBe(1);
  });
});

describe("connections", () => {
  test("serve requests one after the other (RFC 9112 §9.3.2)", async () => {
    const begun: Http1Exchange[] = [];
    const { open } = await serve(collect(begun));
    const client = open(get("/1") + post("ab") + get("/3"));
    await expect.poll(() => begun.length).toBe(1);
    await turn();
    expect(begun).toHaveLength(1);
    for (let at = 0; at < 3; at++) {
      await expect.poll(() => begun.length).toBe(at + 1);
      begun[at]?.respond(200, [], begun[at]?.head.method ?? "");
    }
    await expect.poll(() => statuses(client).length).toBe(3);
  });

  test("are not read while 64 KiB wait", async () => {
    const begun: Http1Exchange[] = [];
    const { open, sockets } = await serve(collect(begun));
    open(get().repeat(100_000));
    await expect.poll(() => sockets[0]?.isPaused()).toBe(true);
    expect(begun).toHaveLength(1);
    begun[0]?.respond(200, [], "");
    await expect.poll(() => begun.length).toBe(2);
  });

  test.each([
    ["Connection: close", get("/", "Connection: close\r\n")],
    ["HTTP/1.0", "GET / HTTP/1.0\r\n\r\n"],
  ])("end after the response to a request with %s (RFC 9112 §9.6)", async (_, request) => {
    const { open, completed } = await serve(echoPath);
    const client = open(request + get("/hidden"));
    await client.ended;
    expect(statuses(client)).toHaveLength(1);
    expect(headOf(client)).toContain("connection: close");
    expect(completed).toEqual([true]);
  });

  test("of HTTP/1.0 stay open if the client asks for it (RFC 9112 §9.3)", async () => {
    const { open } = await serve(echoPath);
    const client = open("GET /1 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n".repeat(2));
    await expect.poll(() => statuses(client).length).toBe(2);
    expect(headOf(client)).toContain("connection: keep-alive");
  });

  test("of HTTP/1.0 end with a response of unknown length (RFC 9112 §6.3)", async () => {
    const { open } = await serve((exchange) => {
      exchange.start(200, ["trailer", "x"]);
      exchange.write(Buffer.from("until the end"));
      exchange.end(["x", "not sent"]);
    });
    const client = open("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    await client.ended;
    expect(headOf(client)).toEqual(["HTTP/1.1 200 OK", "connection: close"]);
    expect(bodyOf(client)).toBe("until the end");
  });

  test("skip an empty line before a request (RFC 9112 §2.2)", async () => {
    const { open } = await serve(echoPath);
    const client = open(`${get("/1")}\r\n${get("/2")}`);
    await expect.poll(() => statuses(client)).toEqual(["HTTP/1.1 200", "HTTP/1.1 200"]);
  });

  test("whose client has left in the middle of a response end their exchange", async () => {
    const { open, completed } = await serve((exchange) => exchange.start(200, []));
    const client = open(get());
    await expect.poll(client.text).toContain("chunked");
    client.socket.destroy();
    await expect.poll(() => completed).toEqual([false]);
  });

  test("whose client has closed its side are closed", async () => {
    const { open, completed } = await serve(() => undefined);
    open(get()).socket.end();
    await expect.poll(() => completed).toEqual([false]);
  });

  test("are closed by a reset if the client would read a truncated response as a complete one", async () => {
    const { open } = await serve((exchange) => {
      exchange.start(200, []);
      exchange.write(Buffer.from("part"));
      setImmediate(() => exchange.reset());
    });
    const client = open("GET / HTTP/1.0\r\n\r\n");
    const error = new Promise<NodeJS.ErrnoException>((resolve) => client.socket.once("error", resolve));
    expect((await error).code).toBe("ECONNRESET");
  });
});

describe("bodies", () => {
  test("are delivered with their trailers (RFC 9112 §7.1.2)", async () => {
    let seen: ReturnType<typeof read> | undefined;
    const { open } = await serve((exchange) => (seen = read(exchange.body)));
    open(chunked("3\r\nabc\r\n2;ext=1\r\nde\r\n0\r\nX-T: 1\r\n\r\n"));
    await expect.poll(() => seen).toEqual({ data: "abcde", trailers: ["X-T", "1"], isAborted: false });
  });

  test("are not delivered before they are read", async () => {
    let body: IncomingBody | undefined;
    const { open } = await serve((exchange) => ({ body } = exchange));
    open(post("hello"));
    await expect.poll(() => body).toBeDefined();
    await turn();
    const seen = read(body);
    expect(seen.data).toBe("");
    await expect.poll(() => seen).toEqual({ data: "hello", trailers: [], isAborted: false });
  });

  test("are held back while they are paused", async () => {
    let body: IncomingBody | undefined;
    const seen = { bytes: 0, hasEnded: false };
    const { open, sockets } = await serve((exchange) => {
      ({ body } = exchange);
      body?.read({
        onData: (bytes) => {
          seen.bytes += bytes.length;
          body?.pause();
        },
        onEnd: () => (seen.hasEnded = true),
        onAborted: () => undefined,
      });
    });
    const length = 10_000_000;
    open(post("x".repeat(length)));
    await expect.poll(() => seen.bytes).toBeGreaterThan(0);
    const before = seen.bytes;
    await turn();
    expect(seen.bytes).toBe(before);
    expect(sockets[0]?.isPaused()).toBe(true);
    while (!seen.hasEnded) {
      body?.resume();
      await turn();
    }
    expect(seen.bytes).toBe(length);
  });

  test("of an aborted upload are aborted", async () => {
    let seen: ReturnType<typeof read> | undefined;
    const { open, completed } = await serve((exchange) => (seen = read(exchange.body)));
    const client = open("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\npart");
    await expect.poll(() => seen?.data).toBe("part");
    client.socket.destroy();
    await expect.poll(() => seen?.isAborted).toBe(true);
    expect(completed).toEqual([false]);
  });

  test("that are not read are dropped after the response, and the next request is served", async () => {
    const { open } = await serve(echoPath);
    const client = open(post("x".repeat(200_000)) + chunked("1\r\nx\r\n0\r\n\r\n") + get("/next"));
    await expect.poll(client.text).toMatch(/\/next\n$/);
    expect(statuses(client)).toHaveLength(3);
  });

  test("that are awaited get 100 when they are read (RFC 9110 §10.1.1)", async () => {
    const { open } = await serve((exchange) => {
      exchange.body?.read({
        onData: () => undefined,
        onEnd: () => exchange.respond(200, [], "done"),
        onAborted: () => undefined,
      });
    });
    const client = open("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
    await expect.poll(client.text).toBe("HTTP/1.1 100 Continue\r\n\r\n");
    client.socket.write("ab");
    await expect.poll(client.text).toMatch(/done$/);
    expect(client.text()).toContain("connection: keep-alive");
  });

  test("that are awaited and not read end the connection with the response (RFC 9110 §10.1.1)", async () => {
    const { open } = await serve(echoPath);
    const client = open("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
    await client.ended;
    expect(statuses(client)).toEqual(["HTTP/1.1 200"]);
    expect(headOf(client)).toContain("connection: close");
  });

  test.each([
    ["a malformed chunk", "3\r\nabcX", 400],
    ["too large trailers", `0\r\nx: ${"y".repeat(2_000)}\r\n\r\n`, 431],
  ])("with %s are rejected, and the response is the last one", async (_, body, status) => {
    const { open } = await serve(
      (exchange) => read(exchange.body),
      (exchange) => ({ onBodyRejected: (code, message) => exchange.respond(code, [], message) }),
    );
    const client = open(chunked(body) + get("/hidden"));
    await client.ended;
    expect(statuses(client)).toEqual([`HTTP/1.1 ${status}`]);
    expect(headOf(client)).toContain("connection: close");
  });
});

describe("heads", () => {
  test.each([
    ["a malformed line", "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", 400],
    ["two Host fields", get("/", "Host: b\r\n"), 400],
    ["too many bytes", get("/", `x: ${"y".repeat(5_000)}\r\n`), 431],
    ["a TLS handshake", "\x16\x03\x01\x02\x00\x01\x00", 400],
  ])("with %s are rejected, and nothing behind them is read (RFC 9112 §9.6)", async (_, request, status) => {
    const { open, rejected, completed } = await serve(echoPath);
    const client = open(request + get("/hidden"));
    await client.ended;
    expect(statuses(client)).toEqual([`HTTP/1.1 ${status}`]);
    expect(headOf(client)).toContain("connection: close");
    expect(rejected.map((each) => each.status)).toEqual([status]);
    expect(completed).toEqual([]);
  });

  test("that are rejected are described as far as they can be read", async () => {
    const { open, rejected } = await serve(echoPath);
    await open("CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\nUser-Agent: x\r\n\r\n").ended;
    expect(rejected).toEqual([
      {
        ...{ status: 501, message: "CONNECT is not served", method: "CONNECT", target: "a:80", httpVersion: "1.1" },
        fields: ["Host", "a:80", "User-Agent", "x"],
      },
    ]);
  });

  test("in pieces of one byte are read", async () => {
    const { open } = await serve(echoPath);
    const client = open();
    for (const byte of get("/slow")) {
      client.socket.write(byte);
      await turn();
    }
    await expect.poll(client.text).toMatch(/\/slow\n$/);
  });
});

/** A connection whose client takes nothing: what is written to it never leaves. */
class UnreadSocket extends Duplex {
  override _read(): void {
    // The test pushes what the client sends.
  }

  override _write(): void {
    // Never finishes.
  }
}

describe("timeouts", () => {
  test("a head that has not ended after 30 s is rejected with 408", async () => {
    const { open, advance, rejected, sockets } = await serve(echoPath);
    const client = open("GET / HTTP/1.1\r\nHo");
    await expect.poll(() => sockets.length).toBe(1);
    await advance(29);
    expect(client.text()).toBe("");
    await advance(10);
    await client.ended;
    expect(statuses(client)).toEqual(["HTTP/1.1 408"]);
    expect(rejected).toMatchObject([{ status: 408, method: "" }]);
  });

  test("an idle connection is closed after 75 s", async () => {
    const { open, advance } = await serve(echoPath);
    const client = open(get());
    await expect.poll(client.text).toMatch(/\/\n$/);
    await advance(74);
    client.socket.write(get("/again"));
    await expect.poll(client.text).toMatch(/\/again\n$/);
    await advance(85);
    await client.ended;
  });

  test("a request may take any time", async () => {
    const begun: Http1Exchange[] = [];
    const { open, advance } = await serve(collect(begun));
    const client = open(get());
    await expect.poll(() => begun.length).toBe(1);
    await advance(1_000);
    begun[0]?.respond(200, [], "late");
    await expect.poll(client.text).toMatch(/late$/);
  });

  test("a client that does not read the response to a rejected head is disconnected after 10 s", async () => {
    const { http1, advance, receiver, rejected } = await serve(echoPath);
    const socket = new UnreadSocket();
    http1.serve(socket as unknown as Socket, receiver);
    socket.push("GET / HTTP/1.1\r\n\r\n");
    await expect.poll(() => rejected.length).toBe(1);
    await advance(9);
    expect(socket.destroyed).toBe(false);
    await advance(11);
    expect(socket.destroyed).toBe(true);
  });

  test("a client that does not close after the last response is disconnected after 10 s", async () => {
    const { open, advance, sockets } = await serve(echoPath);
    const client = open("GET / HTTP/1.1\r\n\r\n");
    await client.ended;
    expect(sockets[0]?.destroyed).toBe(false);
    await advance(20);
    expect(sockets[0]?.destroyed).toBe(true);
  });
});

describe("the end of the server", () => {
  test("asks clients to leave with the next response, and serves what has been received", async () => {
    const begun: Http1Exchange[] = [];
    const { open, http1 } = await serve(collect(begun));
    const client = open(get("/1") + get("/2"));
    await expect.poll(() => begun.length).toBe(1);
    http1.leave();
    begun[0]?.respond(200, [], "1");
    await expect.poll(() => begun.length).toBe(2);
    begun[1]?.respond(200, [], "2");
    await client.ended;
    expect(client.text().match(/connection: \S+/g)).toEqual(["connection: keep-alive", "connection: close"]);
  });

  test("closes idle connections, and others after their response", async () => {
    const begun: Http1Exchange[] = [];
    const { open, http1, sockets } = await serve(collect(begun));
    const [idle, busy] = [open(), open(get())];
    await expect.poll(() => [begun.length, sockets.length]).toEqual([1, 2]);
    http1.drain();
    await idle.ended;
    begun[0]?.respond(200, [], "served");
    await busy.ended;
    expect(busy.text()).toMatch(/connection: close[^]*served$/);
  });
});

test("the socket is passed on when the protocol is switched (RFC 9110 §7.8)", async () => {
  const { open, completed } = await serve((exchange) => {
    const stream = exchange.switchProtocols(exchange.head.upgrade ?? "", ["x-a", "b"]);
    stream.on("data", (bytes: Buffer) => stream.write(bytes.toString("latin1").toUpperCase()));
    stream.on("end", () => stream.end());
    stream.resume();
  });
  const client = open(`${get("/", "Connection: upgrade\r\nUpgrade: shout\r\n")}early `);
  await expect.poll(client.text).toMatch(/EARLY $/);
  expect(headOf(client)).toEqual([
    "HTTP/1.1 101 Switching Protocols",
    "x-a: b",
    "connection: upgrade",
    "upgrade: shout",
  ]);
  client.socket.end("late");
  await client.ended;
  expect(client.text()).toMatch(/EARLY LATE$/);
  await expect.poll(() => completed).toEqual([true]);
});
