/**
 * Random streams of requests: mostly valid, with the faults by which servers have been made to read different messages.
 */
import fc from "fast-check";

const method = fc.constantFrom("GET", "POST", "PUT", "HEAD", "OPTIONS", "DELETE", "M-SEARCH", "get", "G", "");
const target = fc.constantFrom(
  "/",
  "/a?b=c",
  "*",
  "http://a/",
  "a:1",
  "/%2f",
  "/a b",
  "/\t",
  "",
  "/#x",
  "//",
  "/\u00e9",
);
const version = fc.oneof(
  { weight: 12, arbitrary: fc.constant("HTTP/1.1") },
  fc.constantFrom("HTTP/1.0", "HTTP/1.2", "HTTP/2.0", "http/1.1", "HTTP/1.1 ", "HTTP/1.01", ""),
);
const separator = fc.oneof({ weight: 30, arbitrary: fc.constant(" ") }, fc.constantFrom("  ", "\t", "", "\u000b"));
const lineEnd = fc.oneof(
  { weight: 60, arbitrary: fc.constant("\r\n") },
  fc.constantFrom("\n", "\r", "\r\r\n", "\r\n "),
);

const fieldLine = fc.oneof(
  fc.constantFrom(
    ...[
      "X: a",
      "x-b:c",
      "X:",
      "X: \t a \t",
      "Accept: a, b",
      "Connection: close",
      "Connection: keep-alive",
      "Expect: x",
    ],
    ...["Content-Length: 3", "Content-Length: 0", "content-length:3", "Transfer-Encoding: chunked", "Host: b"],
    ...["Trailer: X", "TE: trailers", "Cookie: a=b", "Cookie: c=d"],
  ),
  fc.constantFrom(
    ...[
      "Content-Length: 3, 3",
      "Content-Length: +3",
      "Content-Length: 0x3",
      "Content-Length: 3 ",
      "Content-Length: 03",
    ],
    ...[
      "Content-Length : 3",
      "Content-Length:\t3",
      "Content-Length: -1",
      "Content-Length: 3.0",
      "Content\u0000-Length: 3",
    ],
    ...["Transfer-Encoding: Chunked", "Transfer-Encoding: chunked, identity", "Transfer-Encoding: xchunked"],
    ...[
      "Transfer-Encoding:\u000bchunked",
      "Transfer-Encoding: chunked ",
      "Transfer-Encoding : chunked",
      "transfer-encoding:",
    ],
    ...["X : a", " X: a", "X\u00e9: a", "X: \u00e9", "X: a\u0000", "X: a\u007f", "X", ": a", "X: a\rb", "X: a\nY: b"],
  ),
);

const chunk = fc.tuple(
  fc.constantFrom("3", "003", "3;x", '3;x="y"', "0x3", "+3", "3 ", " 3", "", "g", "3;\n", "ffffffffffffffff"),
  lineEnd,
  fc.constantFrom("abc", "ab", "abcd", "\r\n\r"),
  lineEnd,
);
const body = fc.oneof(
  fc.constantFrom(
    "",
    "abc",
    "3\r\nabc\r\n0\r\n\r\n",
    "0\r\n\r\n",
    "3\r\nabc\r\n0\r\nX: y\r\n\r\n",
    "0\r\nHost: a\r\n\r\n",
  ),
  fc.array(chunk, { maxLength: 2 }).map((chunks) => `${chunks.flat().join("")}0\r\n\r\n`),
);

const requestText = fc
  .record({
    line: fc.tuple(method, separator, target, separator, version, lineEnd),
    hasHost: fc.oneof({ weight: 9, arbitrary: fc.constant(true) }, fc.constant(false)),
    fields: fc.array(fc.tuple(fieldLine, lineEnd), { maxLength: 4 }),
    end: lineEnd,
    body,
  })
  .map(({ line, hasHost, fields, end, body: text }) =>
    [...line, hasHost ? "Host: a\r\n" : "", ...fields.flat(), end, text].join(""),
  );

/** A request without a fault. */
const plainRequest = fc
  .tuple(
    fc.constantFrom("GET / HTTP/1.1\r\n", "POST /a HTTP/1.1\r\n", "OPTIONS * HTTP/1.1\r\n"),
    fc.constantFrom("\r\n", "Content-Length: 3\r\n\r\nabc", "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"),
  )
  .map(([line, rest]) => `${line}Host: a\r\n${rest}`);

/** Bytes that a client may send on one connection. */
export const requestStream: fc.Arbitrary<Buffer> = mutated(
  fc.array(fc.oneof(plainRequest, requestText), { minLength: 1, maxLength: 3 }).map((texts) => texts.join("")),
);

const statusLine = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.constantFrom(
      ...["HTTP/1.1 200 OK", "HTTP/1.1 200 ", "HTTP/1.1 204 No Content", "HTTP/1.1 304 Not Modified"],
      ...["HTTP/1.0 200 OK", "HTTP/1.1 404 Not Found", "HTTP/1.1 200", "HTTP/1.1 999 x"],
    ),
  },
  fc.constantFrom(
    ...[
      "HTTP/1.1 20 OK",
      "HTTP/1.1  200 OK",
      "HTTP/1.2 200 OK",
      "HTTP/1.1\t200 OK",
      "HTTP/1.1 2000 OK",
      "http/1.1 200 OK",
    ],
    ...["HTTP/1.1 200\tOK", " HTTP/1.1 200 OK", "ICY 200 OK", "HTTP/1.1 101 Switching Protocols", ""],
  ),
);
const interim = fc.oneof(
  { weight: 8, arbitrary: fc.constant("") },
  fc.constantFrom(
    "HTTP/1.1 100 Continue\r\n\r\n",
    "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n",
    "HTTP/1.1 103 Early Hints\r\nContent-Length: 3\r\n\r\n",
  ),
);
const responseText = fc
  .record({
    interim,
    line: fc.tuple(statusLine, lineEnd),
    fields: fc.array(fc.tuple(fieldLine, lineEnd), { maxLength: 4 }),
    end: lineEnd,
    body,
  })
  .map((each) => [each.interim, ...each.line, ...each.fields.flat(), each.end, each.body].join(""));

/** Bytes that a server may send for one request, until it closes the connection. */
export const responseStream: fc.Arbitrary<Buffer> = mutated(responseText);

function mutated(text: fc.Arbitrary<string>): fc.Arbitrary<Buffer> {
  return fc.tuple(text, fc.array(mutation(), { maxLength: 1 })).map(([original, edits]) => {
    let edited = original;
    for (const { at, remove, insert } of edits) {
      const index = Math.floor(at * edited.length);
      edited = edited.slice(0, index) + insert + edited.slice(index + remove);
    }
    return Buffer.from(edited, "latin1");
  });
}

function mutation() {
  return fc.record({
    at: fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
    remove: fc.nat(2),
    insert: fc.oneof(
      fc.constantFrom("\r", "\n", "\0", " ", "\t", ":", ";", ",", "0", "\u0085", "\u00a0", "\r\n", "\r\n\r\n"),
      fc.nat(255).map((code) => String.fromCharCode(code)),
    ),
  });
}
