import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { readRequests } from "./testing/read-requests.ts";

const head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
const read = (body: string) => readRequests([Buffer.from(head + body, "latin1")]);

describe("a body in chunks (RFC 9112 §7.1)", () => {
  test.each([
    ["one chunk", "3\r\nabc\r\n0\r\n\r\n", "abc"],
    ["several chunks", "1\r\na\r\n2\r\nbc\r\n0\r\n\r\n", "abc"],
    ["no bytes", "0\r\n\r\n", ""],
    ["sizes in capitals and with leading zeros", "0A\r\n0123456789\r\n000\r\n\r\n", "0123456789"],
    ["extensions", '1;a;b=c;d="\\"e\r"\r\n'.replace("\r", "") + "a\r\n0;x\r\n\r\n", "a"],
  ])("of %s is read", (_, body, expected) => {
    expect(read(body)).toMatchObject({ requests: [{ body: expected, isComplete: true }], error: undefined });
  });

  test("may end with trailers", () => {
    expect(read("0\r\nX-Sum: 1\r\nx-b:\r\n\r\n").requests).toMatchObject([{ trailers: ["X-Sum", "1", "x-b", ""] }]);
  });

  test.each([
    ["an empty size", "\r\n", "400 malformed chunk size"],
    ["a size with 0x", "0x1\r\na\r\n", "400 malformed chunk size"],
    ["a signed size", "+1\r\na\r\n", "400 malformed chunk size"],
    ["a space before the size", " 1\r\na\r\n", "400 malformed chunk size"],
    ["a space behind the size", "1 \r\na\r\n", "400 malformed chunk size"],
    ["a size of 14 digits", "00000000000001\r\n", "400 chunk size too large"],
    ["a bare LF behind the size", "1\na\r\n", "400 malformed chunk size"],
    ["a bare CR behind the size", "1\ra", "400 malformed chunk"],
    ["more bytes than its size", "1\r\nab\r\n", "400 malformed chunk"],
    ["a bare LF behind its bytes", "1\r\na\n", "400 malformed chunk"],
    ["white space in extensions", "1; a\r\n", "400 malformed chunk extension"],
    ["an extension without a name", "1;\r\n", "400 malformed chunk extension"],
    ["an extension with a bare LF", "1;a\nb\r\n", "400 malformed chunk extension"],
    ["an open quote", '1;a="b\r\n', "400 malformed chunk extension"],
    ["extensions of 300 bytes", `1;${"a".repeat(300)}\r\n`, "400 chunk extensions too long"],
    ["a malformed trailer", "0\r\nX : 1\r\n\r\n", "400 malformed field name"],
    ["a folded trailer", "0\r\nX: 1\r\n 2\r\n\r\n", "400 malformed field name"],
    ["Content-Length in the trailers", "0\r\nContent-Length: 1\r\n\r\n", "400 Content-Length in the trailers"],
    ["Host in the trailers", "0\r\nHost: b\r\n\r\n", "400 Host in the trailers"],
    ["trailers of 70,000 bytes", `0\r\nX: ${"a".repeat(70_000)}\r\n\r\n`, "431 trailers too large"],
  ])("with %s is rejected", (_, body, error) => {
    expect(read(body).error).toBe(error);
  });
});

test("a stream has the same meaning for any chunks", () => {
  const streams = [
    `${head}3\r\nabc\r\n1;x="y"\r\nd\r\n0\r\nX: 1\r\n\r\nGET /next HTTP/1.1\r\nHost: a\r\n\r\n`,
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhelloGET /next HTTP/1.1\r\nHost: b\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /bad HTTP/1.1\r\nHost : b\r\n\r\n",
  ].map((text) => Buffer.from(text, "latin1"));
  fc.assert(
    fc.property(fc.constantFrom(...streams), fc.array(fc.nat(200), { maxLength: 20 }), (bytes, cuts) => {
      const places = [0, ...cuts.map((cut) => Math.min(cut, bytes.length)).sort((a, b) => a - b), bytes.length];
      const chunks = places.slice(1).map((end, index) => Buffer.from(bytes.subarray(places[index], end)));
      expect(readRequests(chunks)).toEqual(readRequests([Buffer.from(bytes)]));
    }),
  );
});
