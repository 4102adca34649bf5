/** The client of HTTP/1, through its sockets. Each case names the section of RFC 9112 or RFC 9110 that it is about. */
import { once } from "node:events";
import { setImmediate as turn } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import type { ClientRequest } from "../ports.ts";
import { sweepMs } from "../sweep.ts";
import { TestBody } from "../testing/exchanges.ts";
import { connectToServer } from "./testing/connect-to.ts";

const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const chunked = (body: string): string => `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${body}`;

/** Sends a request, responds with `text`, and returns what the client received. */
async function exchange(text: string, request: Partial<ClientRequest> = {}, end = false) {
  const { peer, send, text: sent, ...rest } = await connectToServer();
  const { received, over } = send(request);
  await expect.poll(sent).not.toBe("");
  peer.write(text, "latin1");
  if (end) peer.end();
  await over;
  return { received, peer, send, text: sent, ...rest };
}

test("an error while a response is read fails its request, and closes the connection", async () => {
  const { peer, send, state } = await connectToServer();
  const { received, over } = send({}, 0, {
    onHead() {
      throw new Error("no memory");
    },
  });
  peer.write(ok);
  await over;
  expect(received.failure).toEqual({ kind: "reset", message: "internal error: Error: no memory" });
  await expect.poll(() => state.isClosed).toBe(true);
});

describe("a request", () => {
  test("has the host first (RFC 9110 §7.2) and no field of the connection (RFC 9110 §7.6.1)", async () => {
    const { text } = await exchange(ok, {
      path: "/a?b=c",
      fields: ["accept", "x", "Connection", "close", "keep-alive", "1", "Host", "a.test", "transfer-encoding", "gzip"],
    });
    expect(text()).toBe("GET /a?b=c HTTP/1.1\r\nHost: a.test\r\naccept: x\r\n\r\n");
  });

  test("has the length of its body (RFC 9112 §6.2), which is sent with the head", async () => {
    const { text } = await exchange(ok, { method: "POST", body: Buffer.from("body") });
    expect(text()).toBe("POST / HTTP/1.1\r\nHost: a\r\ncontent-length: 4\r\n\r\nbody");
  });

  test("keeps its own length", async () => {
    const { text } = await exchange(ok, { method: "POST", fields: ["Content-Length", "4"], body: Buffer.from("body") });
    expect(text()).toBe("POST / HTTP/1.1\r\nContent-Length: 4\r\n\r\nbody");
  });

  test.each(["POST", "PUT", "PATCH"])("%s without a body has the length 0 (RFC 9110 §8.6)", async (method) => {
    const { text } = await exchange(ok, { method });
    expect(text()).toContain("\r\ncontent-length: 0\r\n");
  });

  test.each(["GET", "DELETE", "OPTIONS"])("%s without a body has no length (RFC 9110 §8.6)", async (method) => {
    const { text } = await exchange(ok, { method });
    expect(text()).not.toContain("content-length");
  });

  test("with a long buffer is sent whole", async () => {
    const body = Buffer.alloc(300_000, "x");
    const { peer, send, text } = await connectToServer();
    const { over } = send({ method: "POST", body });
    await expect.poll(() => text().endsWith("x") && text().length > 300_000).toBe(true);
    peer.write(ok);
    await over;
  });

  test.each<readonly [string, Partial<ClientRequest>]>([
    ["a method that is not a token (RFC 9110 §9.1)", { method: "GE T" }],
    ["an empty method", { method: "" }],
    ["a path with a space (RFC 9112 §3.2)", { path: "/a b" }],
    ["a path with a line break", { path: "/\r\nX: y" }],
    ["a path outside of ASCII", { path: "/é" }],
    ["an empty path", { path: "" }],
    ["a field name with a colon (RFC 9110 §5.1)", { fields: ["a:b", "c"] }],
    ["a field value with a line break (RFC 9110 §5.5)", { fields: ["a", "b\r\nc: d"] }],
    ["a field value with NUL", { fields: ["a", "\0"] }],
    ["two hosts (RFC 9112 §3.2)", { fields: ["host", "a", "Host", "a"] }],
    ["two lengths (RFC 9112 §6.3)", { fields: ["content-length", "0", "Content-Length", "0"] }],
    ["a length that is not a number", { fields: ["content-length", "+1"], body: Buffer.from("a") }],
    ["a length other than that of its body", { fields: ["content-length", "2"], body: Buffer.from("a") }],
    ["an upgrade with a line break", { upgrade: "a\r\nb" }],
  ])("with %s is not sent", async (_, request) => {
    const { send, text, peer } = await connectToServer();
    expect(() => send(request)).toThrow(TypeError);
    const { over } = send();
    await expect.poll(text).toBe("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    peer.write(ok);
    await over;
  });
});

describe("a body in parts", () => {
  test("is sent in chunks (RFC 9112 §7.1), its first part with the head", async () => {
    const { peer, send, text } = await connectToServer();
    const body = new TestBody();
    const { over } = send({ method: "POST", body });
    await turn();
    body.receiver?.onData(Buffer.from("one"));
    body.receiver?.onData(Buffer.alloc(20_000, "y"));
    body.receiver?.onEnd([]);
    await expect.poll(() => text().endsWith("0\r\n\r\n")).toBe(true);
    expect(text()).toContain("POST / HTTP/1.1\r\nHost: a\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n4e20\r\nyy");
    peer.write(ok);
    await over;
    expect(body.isCancelled).toBe(false);
  });

  test("is followed by its trailers (RFC 9112 §7.1.2), which its head may announce (RFC 9110 §6.6.2)", async () => {
    const { send, text } = await connectToServer();
    const body = new TestBody();
    send({ method: "POST", fields: ["Host", "a", "trailer", "x-sum"], body });
    await turn();
    body.receiver?.onData(Buffer.from("one"));
    body.receiver?.onEnd(["x-sum", "1", "x-note", "2"]);
    await expect.poll(text).toMatch(/\r\n\r\n3\r\none\r\n0\r\nx-sum: 1\r\nx-note: 2\r\n\r\n$/);
    expect(text()).toContain("\r\ntrailer: x-sum\r\ntransfer-encoding: chunked\r\n");
  });

  test("with a length has no trailers, and its head announces none (RFC 9112 §6.3)", async () => {
    const { peer, send, text } = await connectToServer();
    const body = new TestBody();
    const { over, received } = send({ method: "POST", fields: ["content-length", "3", "trailer", "x-sum"], body });
    await turn();
    body.receiver?.onData(Buffer.from("one"));
    body.receiver?.onEnd(["x-sum", "1"]);
    await expect.poll(text).toMatch(/content-length: 3\r\n\r\none$/);
    peer.write(ok);
    await over;
    expect([received.body, text().includes("x-sum")]).toEqual(["ok", false]);
  });

  test.each([
    ["x-a\r\nb", "1"],
    ["x-a", "1\r\nb: 2"],
    ["x-a", "1\n\nGET / HTTP/1.1"],
    ["", "1"],
  ])("with the trailer %j: %j, which cannot be sent, closes the connection without its end", async (name, value) => {
    const { send, state, text } = await connectToServer();
    const body = new TestBody();
    const { over, received } = send({ method: "POST", body });
    await turn();
    body.receiver?.onData(Buffer.from("one"));
    body.receiver?.onEnd([name, value]);
    await over;
    expect(received.failure?.kind).toBe("aborted");
    await expect.poll(() => state.isClosed).toBe(true);
    expect(text()).not.toMatch(/\r\n0\r\n/);
  });

  test("is sent with its length if that is known", async () => {
    const { peer, send, text } = await connectToServer();
    const body = new TestBody();
    const { over, received } = send({ method: "POST", fields: ["content-length", "6"], body });
    await turn();
    for (const part of ["one", "two"]) body.receiver?.onData(Buffer.from(part));
    body.receiver?.onEnd([]);
    await expect.poll(text).toMatch(/\r\n\r\nonetwo$/);
    peer.write(ok);
    await over;
    expect(received.body).toBe("ok");
  });

  test("does not delay the head, which is sent before its first byte", async () => {
    const { send, text } = await connectToServer();
    send({ method: "POST", body: new TestBody() });
    await expect.poll(text).toMatch(/\r\n\r\n$/);
  });

  test.each([
    ["longer", ["one", "two"], "the body of the request is longer than its Content-Length"],
    ["shorter", ["on"], "the body of the request is shorter than its Content-Length"],
  ])("that is %s than its length fails the request (RFC 9112 §6.3)", async (_, parts, message) => {
    const { send, state } = await connectToServer();
    const body = new TestBody();
    const { over, received } = send({ method: "POST", fields: ["content-length", "3"], body });
    await turn();
    for (const part of parts) body.receiver?.onData(Buffer.from(part));
    body.receiver?.onEnd([]);
    await over;
    expect(received.failure).toEqual({ kind: "reset", message });
    await expect.poll(() => state.isClosed).toBe(true);
  });

  test("whose source fails ends the request, so that the server cannot read it as complete", async () => {
    const { peer, send } = await connectToServer();
    const body = new TestBody();
    const { over, received } = send({ method: "POST", body });
    await turn();
    const closed = new Promise((resolve) => peer.once("close", resolve));
    peer.end();
    body.receiver?.onData(Buffer.from("part"));
    body.receiver?.onAborted();
    await over;
    expect(received.failure?.kind).toBe("aborted");
    await closed;
  });

  test("is paused while the server does not read, and goes on when it does", async () => {
    const { peer, send } = await connectToServer();
    const body = new TestBody();
    send({ method: "POST", body });
    peer.pause();
    await turn();
    for (let part = 0; part < 1_000 && !body.isPaused; part++) body.receiver?.onData(Buffer.alloc(64 * 1024));
    expect(body.isPaused).toBe(true);
    peer.resume();
    await expect.poll(() => body.isPaused).toBe(false);
  });

  test("is cancelled by a complete response, after which the connection closes (RFC 9112 §9.3)", async () => {
    const { peer, send, state, connection } = await connectToServer();
    const body = new TestBody();
    const { over, received } = send({ method: "POST", body });
    await turn();
    body.receiver?.onData(Buffer.from("part"));
    peer.write("HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n");
    await over;
    expect(received.status).toBe(413);
    expect(body.isCancelled).toBe(true);
    expect(connection.isAvailable).toBe(false);
    await expect.poll(() => state.isClosed).toBe(true);
  });

  test("goes on after the response has begun", async () => {
    const { peer, send, text } = await connectToServer();
    const body = new TestBody();
    const { over, received } = send({ method: "POST", body });
    peer.write("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nok");
    await expect.poll(() => received.body).toBe("ok");
    body.receiver?.onData(Buffer.from("late"));
    body.receiver?.onEnd([]);
    await expect.poll(text).toMatch(/4\r\nlate\r\n0\r\n\r\n$/);
    peer.write("ay");
    await over;
    expect(received.body).toBe("okay");
  });
});

describe("a response", () => {
  test.each([
    ["with a length (RFC 9112 §6.3, rule 6)", ok, "ok"],
    ["in chunks (RFC 9112 §7.1)", chunked("1\r\no\r\n1;a=b\r\nk\r\n0\r\n\r\n"), "ok"],
    ["of length 0", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", ""],
    ["with 204 (RFC 9112 §6.3, rule 1)", "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", ""],
    ["with 304 (RFC 9112 §6.3, rule 1)", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", ""],
    ["without a reason phrase (RFC 9112 §4)", "HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok", "ok"],
  ])("%s ends where it says, and the connection is used again", async (_, text, body) => {
    const { received, peer, send, connection } = await exchange(text);
    expect([received.body, received.failure, received.trailers]).toEqual([body, undefined, []]);
    expect(connection.isAvailable).toBe(true);
    const next = send();
    peer.write(ok);
    await next.over;
    expect(next.received.body).toBe("ok");
  });

  test("to HEAD has no body (RFC 9112 §6.3, rule 1)", async () => {
    const { received, connection } = await exchange("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", { method: "HEAD" });
    expect(received.fields).toEqual(["Content-Length", "5"]);
    expect(connection.isAvailable).toBe(true);
  });

  test("without a length ends with the connection (RFC 9112 §6.3, rule 8)", async () => {
    const { received, connection } = await exchange("HTTP/1.1 200 OK\r\n\r\nall of it", {}, true);
    expect([received.body, received.trailers]).toEqual(["all of it", []]);
    expect(connection.isAvailable).toBe(false);
  });

  test("has its trailers (RFC 9112 §7.1.2)", async () => {
    const { received } = await exchange(chunked("0\r\nX-A: b\r\n\r\n"));
    expect(received.trailers).toEqual(["X-A", "b"]);
  });

  test("that arrives byte by byte is the same", async () => {
    const { peer, send } = await connectToServer();
    const { over, received } = send();
    for (const byte of chunked("2\r\nok\r\n0\r\nX-A: b\r\n\r\n")) {
      peer.write(byte, "latin1");
      await turn();
    }
    await over;
    expect(received).toMatchObject({ status: 200, body: "ok", trailers: ["X-A", "b"] });
  });

  test("may follow interim responses (RFC 9110 §15.2)", async () => {
    const early = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
    const { received } = await exchange(early + ok);
    expect(received.interim).toEqual([
      [100, []],
      [103, ["Link", "</a>"]],
    ]);
    expect(received.body).toBe("ok");
  });

  test.each([
    ["Connection: close (RFC 9112 §9.6)", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"],
    ["HTTP/1.0 (RFC 9112 §9.3)", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok"],
    ["Keep-Alive: timeout=1", "HTTP/1.1 200 OK\r\nKeep-Alive: timeout=1\r\nContent-Length: 2\r\n\r\nok"],
    ["bytes behind its end (RFC 9112 §9.2)", `${ok}HTTP/1.1 200 OK\r\n`],
  ])("with %s is the last of its connection", async (_, text) => {
    const { received, connection, state } = await exchange(text);
    expect([received.body, received.failure]).toEqual(["ok", undefined]);
    expect(connection.isAvailable).toBe(false);
    await expect.poll(() => state.isClosed).toBe(true);
  });

  test("of HTTP/1.0 with keep-alive is not the last (RFC 9112 §9.3)", async () => {
    const { connection } = await exchange("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok");
    expect(connection.isAvailable).toBe(true);
  });

  test.each([
    ["no status line", "hello\r\n\r\n"],
    ["HTTP/2.0 (RFC 9112 §2.3)", "HTTP/2.0 200 OK\r\n\r\n"],
    ["a status of two digits (RFC 9112 §4)", "HTTP/1.1 20 OK\r\n\r\n"],
    ["a status of four digits", "HTTP/1.1 2000 OK\r\n\r\n"],
    ["a status below 100", "HTTP/1.1 099 OK\r\n\r\n"],
    ["a control character in its reason phrase", "HTTP/1.1 200 O\u0001\r\n\r\n"],
    ["a bare LF behind its status line (RFC 9112 §2.2)", "HTTP/1.1 200 OK\nA: b\r\n\r\n"],
    ["a bare CR in a field (RFC 9112 §2.2)", "HTTP/1.1 200 OK\r\nA: b\rC: d\r\n\r\n"],
    ["a folded field line (RFC 9112 §5.2)", "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n"],
    ["white space before a colon (RFC 9112 §5.1)", "HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nok"],
    ["two lengths (RFC 9112 §6.3)", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok"],
    ["a list of lengths (RFC 9112 §6.3)", "HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nok"],
    ["a negative length (RFC 9112 §6.3)", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"],
    [
      "a length and chunks (RFC 9112 §6.3)",
      "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
    ["another coding than chunked (RFC 9112 §6.1)", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"],
    [
      "two codings (RFC 9112 §6.1)",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
    ["chunks in HTTP/1.0 (RFC 9112 §6.1)", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"],
    ["a malformed chunk size (RFC 9112 §7.1)", chunked("0x2\r\nok\r\n0\r\n\r\n")],
    ["a chunk that is longer than its size (RFC 9112 §7.1)", chunked("2\r\nokay\r\n0\r\n\r\n")],
    ["a length in its trailers (RFC 9110 §6.5.1)", chunked("0\r\nContent-Length: 2\r\n\r\n")],
    ["a head without an end", `HTTP/1.1 200 OK\r\nA: ${"b".repeat(5_000)}`],
    ["too many fields", `HTTP/1.1 200 OK\r\n${"A: b\r\n".repeat(21)}\r\n`],
    ["101 that was not requested (RFC 9110 §15.2.2)", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: a\r\n\r\n"],
  ])("with %s fails, and the connection closes", async (_, text) => {
    const { received, connection, state } = await exchange(text);
    expect(received.failure).toMatchObject({ kind: "reset" });
    expect(received.failure?.message).toMatch(/^malformed response: /);
    expect(connection.isAvailable).toBe(false);
    await expect.poll(() => state.isClosed).toBe(true);
  });

  test.each([
    ["before its head", "", "the server has closed the connection before its response"],
    ["in its head", "HTTP/1.1 200 OK\r\n", "the server has closed the connection before its response"],
    ["in its body", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok", "before the end of its response"],
    ["in a chunk", chunked("5\r\nok"), "before the end of its response"],
    ["in its trailers (RFC 9112 §8)", chunked("0\r\nA: b\r\n"), "before the end of its response"],
  ])("that ends %s fails (RFC 9112 §8)", async (_, text, message) => {
    const { received } = await exchange(text, {}, true);
    expect(received.failure).toMatchObject({ kind: "reset" });
    expect(received.failure?.message).toContain(message);
  });

  test("of a connection that is reset fails with the error of the socket", async () => {
    const { peer, send } = await connectToServer();
    const { over, received } = send();
    peer.resetAndDestroy();
    await over;
    expect(received.failure).toEqual({ kind: "reset", message: "ECONNRESET: read ECONNRESET" });
  });
});

describe("control", () => {
  test("a paused response slows the server down, and goes on after resume", async () => {
    const { peer, send } = await connectToServer();
    const { exchange: paused, over, received } = send();
    peer.write("HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n");
    await expect.poll(() => received.status).toBe(200);
    paused.pause();
    let written = 0;
    for (; written < 100_000_000 && peer.write(Buffer.alloc(1_000_000)); ) written += 1_000_000;
    const before = received.body.length;
    for (let turns = 0; turns < 20; turns++) await turn();
    expect(received.body.length - before).toBeLessThan(200_000);
    paused.resume();
    await expect.poll(() => received.body.length).toBeGreaterThan(900_000);
    peer.destroy();
    await over;
    expect(received.failure?.kind).toBe("reset");
  });

  test("an aborted request has no further events, and its connection closes", async () => {
    const { peer, send, state } = await connectToServer();
    const body = new TestBody();
    const { exchange: aborted, received } = send({ method: "POST", body });
    await turn();
    aborted.abort();
    peer.write(ok);
    await expect.poll(() => state.isClosed).toBe(true);
    expect([received.status, received.failure, body.isCancelled]).toEqual([undefined, undefined, true]);
  });

  test("an aborted request resets its connection, so that its port can be used again at once", async () => {
    const { peer, send, text } = await connectToServer();
    const reset = once(peer, "error");
    const { exchange: aborted } = send();
    await expect.poll(text).not.toBe("");
    aborted.abort();
    expect(await reset).toMatchObject([{ code: "ECONNRESET" }]);
  });

  test("a response that precedes the end of its request resets the connection", async () => {
    const { peer, send, text, state } = await connectToServer();
    const reset = once(peer, "error");
    const { received, over } = send({ method: "POST", body: new TestBody() });
    await expect.poll(text).not.toBe("");
    peer.write(ok);
    await over;
    expect(received.body).toBe("ok");
    expect(await reset).toMatchObject([{ code: "ECONNRESET" }]);
    await expect.poll(() => state.isClosed).toBe(true);
  });

  test("abort within an event ends the events", async () => {
    const { peer, send, state } = await connectToServer();
    const sent = send({}, 0, { onHead: () => sent.exchange.abort() });
    peer.write(ok);
    await expect.poll(() => state.isClosed).toBe(true);
    expect(sent.received).toMatchObject({ status: 200, body: "", trailers: undefined, failure: undefined });
  });

  test("a request that is over does not control the next one", async () => {
    const { peer, send } = await connectToServer();
    const first = send();
    peer.write(ok);
    await first.over;
    const second = send();
    first.exchange.pause();
    first.exchange.abort();
    peer.write(ok);
    await second.over;
    expect(second.received.body).toBe("ok");
  });
});

describe("time", () => {
  const sweeps = (ms: number): number => ms / sweepMs;

  test("a server that sends nothing for the time-out fails the request", async () => {
    const { connection, send, state } = await connectToServer();
    const { over, received } = send({}, 3_000);
    for (let sweep = 0; sweep < sweeps(3_000); sweep++) connection.sweep();
    expect(received.failure).toBeUndefined();
    connection.sweep();
    await over;
    expect(received.failure).toEqual({ kind: "timeout", message: "the server has sent nothing for 3000 ms" });
    await expect.poll(() => state.isClosed).toBe(true);
  });

  test("every byte of a response restarts the time", async () => {
    const { connection, peer, send } = await connectToServer();
    const { over, received } = send({}, 3_000);
    peer.write("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n");
    for (const byte of "abc") {
      for (let sweep = 0; sweep < sweeps(3_000); sweep++) connection.sweep();
      const before = received.body.length;
      peer.write(byte);
      await expect.poll(() => received.body.length).toBe(before + 1);
    }
    await over;
    expect(received.failure).toBeUndefined();
  });

  test("the time does not run while the source of the body sends nothing, or the response is paused", async () => {
    const { connection, peer, send } = await connectToServer();
    const body = new TestBody();
    const { exchange: slow, over, received } = send({ method: "POST", body }, 3_000);
    await turn();
    await turn();
    for (let sweep = 0; sweep < 100; sweep++) connection.sweep();
    body.receiver?.onEnd([]);
    peer.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n");
    await expect.poll(() => received.status).toBe(200);
    slow.pause();
    for (let sweep = 0; sweep < 100; sweep++) connection.sweep();
    slow.resume();
    peer.write("ok");
    await over;
    expect(received.body).toBe("ok");
  });

  test.each([
    ["4 s", ok, 4],
    ["a second less than the server says", ok.replace("OK\r\n", "OK\r\nKeep-Alive: max=5, timeout=30\r\n"), 29],
    ["at most 10 minutes", ok.replace("OK\r\n", "OK\r\nKeep-Alive: timeout=86400\r\n"), 600],
  ])("an idle connection is closed after %s", async (_, text, seconds) => {
    const { connection, state } = await exchange(text);
    for (let sweep = 1; sweep < seconds; sweep++) connection.sweep();
    expect(connection.isAvailable).toBe(true);
    connection.sweep();
    await expect.poll(() => state.isClosed).toBe(true);
    expect(connection.isAvailable).toBe(false);
  });

  test("an idle connection on which bytes arrive, or the end, is closed", async () => {
    for (const next of ["HTTP/1.1 200 OK\r\n\r\n", ""]) {
      const { connection, peer, state } = await exchange(ok);
      peer.end(next);
      await expect.poll(() => state.isClosed).toBe(true);
      expect(connection.isAvailable).toBe(false);
    }
  });
});

describe("a switch of protocols (RFC 9110 §7.8)", () => {
  const switching = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\nX-A: b\r\n\r\n";

  test("passes the stream on, with the bytes after the head", async () => {
    const { peer, received, text, state } = await exchange(`${switching}first`, { upgrade: "websocket" });
    expect(text()).toBe("GET / HTTP/1.1\r\nHost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n");
    let seen = "";
    received.switched?.on("data", (bytes: Buffer) => (seen += bytes.toString())).resume();
    received.switched?.write("hello");
    await expect.poll(() => [seen, text().endsWith("hello")]).toEqual(["first", true]);
    peer.destroy();
    await expect.poll(() => state.isClosed).toBe(true);
  });

  test("to another protocol than the requested one fails", async () => {
    const { received } = await exchange(switching, { upgrade: "other" });
    expect(received.failure?.message).toContain("another protocol than the requested one");
  });

  test("may be rejected with any other response", async () => {
    const { received, connection } = await exchange(ok, { upgrade: "websocket" });
    expect(received.body).toBe("ok");
    expect(connection.isAvailable).toBe(true);
  });
});
