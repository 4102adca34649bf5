import { describe, expect, test } from "vitest";
import { readRequests } from "./testing/read-requests.ts";

const read = (text: string) => readRequests([Buffer.from(text, "latin1")]);
/** A request with these further lines. */
const withLines = (...lines: readonly string[]) => read(["GET / HTTP/1.1", "Host: a", ...lines, "", ""].join("\r\n"));

describe("a request line (RFC 9112 §3)", () => {
  test("has a method, a target and a version", () => {
    const { requests, error } = read("POST /a?b=c HTTP/1.1\r\nHost: a\r\n\r\n");
    expect(error).toBeUndefined();
    expect(requests).toMatchObject([{ head: { method: "POST", target: "/a?b=c", minorVersion: 1 } }]);
  });

  test.each([
    ["a tab as a separator", "GET\t/ HTTP/1.1", "400 malformed request line"],
    ["two spaces before the target", "GET  / HTTP/1.1", "400 malformed request target"],
    ["two spaces before the version", "GET /  HTTP/1.1", "400 malformed request line"],
    ["a space at the end", "GET / HTTP/1.1 ", "400 malformed request line"],
    ["no version", "GET /", "400 malformed request line"],
    ["no target", "GET HTTP/1.1", "400 malformed request line"],
    ["an empty method", " / HTTP/1.1", "400 malformed request line"],
    ["a method that is not a token", "G[T / HTTP/1.1", "400 malformed request line"],
    ["a version in lower case", "GET / http/1.1", "400 malformed request line"],
    ["version 2.0", "GET / HTTP/2.0", "505 HTTP version not supported"],
    ["version 1.2", "GET / HTTP/1.2", "505 HTTP version not supported"],
    ["version 0.9", "GET / HTTP/0.9", "505 HTTP version not supported"],
    ["a control character in the target", "GET /\u0001 HTTP/1.1", "400 malformed request target"],
    ["a byte above 0x7f in the target", "GET /\u00e9 HTTP/1.1", "400 malformed request target"],
    ["a bare CR", "GET /\rx HTTP/1.1", "400 malformed request target"],
    ["a bare LF", "GET /\nx HTTP/1.1", "400 malformed request target"],
    ["a target of 20,000 characters", `GET /${"a".repeat(20_000)} HTTP/1.1`, "414 request target too long"],
  ])("with %s is rejected", (_, line, error) => {
    expect(read(`${line}\r\nHost: a\r\n\r\n`)).toMatchObject({ requests: [], error });
  });
});

describe("a field line (RFC 9112 §5)", () => {
  test("keeps its name, and its value without surrounding white space", () => {
    const { requests } = withLines("X-A: \t b c \t", "x-a:d", "Empty:");
    expect(requests[0]?.head.fields).toEqual(["Host", "a", "X-A", "b c", "x-a", "d", "Empty", ""]);
  });

  test("may have bytes above 0x7f in its value", () => {
    expect(withLines("X: \u00e9\u00ff").requests[0]?.head.fields.at(-1)).toBe("\u00e9\u00ff");
  });

  test.each([
    ["white space before the colon", "X : a", "400 malformed field name"],
    ["no name", ": a", "400 malformed field name"],
    ["no colon", "X", "400 malformed field name"],
    ["a folded value", "X: a\r\n b", "400 malformed field name"],
    ["a name with a space", "X Y: a", "400 malformed field name"],
    ["a name with a byte above 0x7f", "X\u00e9: a", "400 malformed field name"],
    ["a bare CR", "X: a\rb", "400 malformed field value"],
    ["a bare LF", "X: a\nb", "400 malformed field value"],
    ["NUL", "X: a\u0000b", "400 malformed field value"],
    ["DEL", "X: a\u007fb", "400 malformed field value"],
  ])("with %s is rejected", (_, line, error) => {
    expect(withLines(line)).toMatchObject({ requests: [], error });
  });

  test("of more than 200 is rejected", () => {
    expect(withLines(...Array.from({ length: 199 }, (_, index) => `X-${index}: a`)).error).toBeUndefined();
    expect(withLines(...Array.from({ length: 200 }, (_, index) => `X-${index}: a`)).error).toBe(
      "431 too many header fields",
    );
  });
});

describe("Host (RFC 9112 §3.2)", () => {
  test.each([
    ["is required in HTTP/1.1", "GET / HTTP/1.1\r\n\r\n", "400 no Host field"],
    ["occurs once", "GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n", "400 more than one Host field"],
  ])("%s", (_, text, error) => {
    expect(read(text)).toMatchObject({ requests: [], error });
  });

  test("is optional in HTTP/1.0", () => {
    expect(read("GET / HTTP/1.0\r\n\r\n").requests).toMatchObject([{ head: { host: undefined, keepsAlive: false } }]);
  });
});

describe("the length of a body (RFC 9112 §6)", () => {
  test("is 0 without a field about it", () => {
    expect(withLines().requests).toMatchObject([{ head: { bodyLength: 0 } }]);
  });

  test.each([
    ["Content-Length that is signed", ["Content-Length: +1"], "400 Content-Length is not a number of bytes"],
    ["Content-Length that is negative", ["Content-Length: -1"], "400 Content-Length is not a number of bytes"],
    ["Content-Length that is hexadecimal", ["Content-Length: 0x1"], "400 Content-Length is not a number of bytes"],
    ["Content-Length without a value", ["Content-Length:"], "400 Content-Length is not a number of bytes"],
    ["a list of lengths", ["Content-Length: 1, 1"], "400 Content-Length is not a number of bytes"],
    ["a length of 16 digits", ["Content-Length: 1000000000000000"], "400 Content-Length is not a number of bytes"],
    ["two lengths", ["Content-Length: 1", "Content-Length: 1"], "400 more than one Content-Length field"],
    [
      "a length and chunks",
      ["Content-Length: 1", "Transfer-Encoding: chunked"],
      "400 Content-Length and Transfer-Encoding together",
    ],
    ["gzip", ["Transfer-Encoding: gzip"], "501 Transfer-Encoding other than chunked"],
    ["gzip before chunked", ["Transfer-Encoding: gzip, chunked"], "501 Transfer-Encoding other than chunked"],
    ["chunked twice", ["Transfer-Encoding: chunked, chunked"], "501 Transfer-Encoding other than chunked"],
    [
      "chunked in two lines",
      ["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"],
      "400 more than one Transfer-Encoding field",
    ],
    ["identity", ["Transfer-Encoding: identity"], "501 Transfer-Encoding other than chunked"],
    ["an empty coding", ["Transfer-Encoding:"], "501 Transfer-Encoding other than chunked"],
  ])("of %s is rejected", (_, lines, error) => {
    expect(withLines(...lines)).toMatchObject({ requests: [], error });
  });

  test("in chunks is rejected in HTTP/1.0", () => {
    expect(read("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n").error).toBe(
      "400 Transfer-Encoding in an HTTP/1.0 request",
    );
  });
});

describe("a connection (RFC 9112 §9.3)", () => {
  test.each([
    ["HTTP/1.1", [], true],
    ["HTTP/1.1", ["Connection: close"], false],
    ["HTTP/1.1", ["Connection: x, CLOSE"], false],
    ["HTTP/1.1", ["Connection: keep-alive", "Connection: close"], false],
    ["HTTP/1.0", [], false],
    ["HTTP/1.0", ["Connection: Keep-Alive"], true],
  ])("of %s with %j persists: %j", (version, lines, keepsAlive) => {
    const { requests } = read([`GET / ${version}`, "Host: a", ...lines, "", ""].join("\r\n"));
    expect(requests).toMatchObject([{ head: { keepsAlive } }]);
  });

  test("may be switched to a protocol that Connection and Upgrade name", () => {
    expect(withLines("Connection: Upgrade", "Upgrade: websocket").requests[0]?.head.upgrade).toBe("websocket");
    expect(withLines("Upgrade: websocket").requests[0]?.head.upgrade).toBeUndefined();
  });

  test("waits for 100 (Continue) if the client expects it", () => {
    expect(withLines("Expect: 100-Continue").requests[0]?.head.awaitsContinue).toBe(true);
    expect(withLines("Expect: other").requests[0]?.head.awaitsContinue).toBe(false);
  });
});
