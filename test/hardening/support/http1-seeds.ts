/** HTTP/1 requests from which fuzzers start, in latin1. */
const get = "GET /a HTTP/1.1\r\nHost: a.test\r\nAccept: */*\r\n\r\n";
/** Requests of a client, with bodies and pipelining. */
export const clientRequests: readonly string[] = [
  get,
  get + get,
  "POST /b HTTP/1.1\r\nHost: a.test\r\nContent-Length: 11\r\n\r\nhello world",
  "POST /c HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;x=y\r\n world\r\n0\r\nX-T: 1\r\n\r\n",
  "PUT /d HTTP/1.1\r\nHost: a.test\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
  "GET /e HTTP/1.1\r\nHost: a.test\r\nConnection: keep-alive, x-a\r\nX-A: b\r\nCookie: a=b; c=d\r\n\r\n" + get,
  "HEAD /f HTTP/1.1\r\nHost: a.test\r\n\r\n" + get,
  "OPTIONS * HTTP/1.1\r\nHost: a.test\r\n\r\n",
  "GET http://a.test/g?x=1 HTTP/1.1\r\nHost: a.test\r\n\r\n",
  "POST /h HTTP/1.1\r\nHost: a.test\r\nContent-Length: 52\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a.test\r\nX: 123456\r\n" +
    get,
];
/** Texts that edits insert. */
export const http1Tokens: readonly string[] = [
  ...[
    "\r\n",
    "\n",
    "\r",
    " ",
    "\t",
    ":",
    ",",
    ";",
    "\0",
    "\x7f",
    "\x80",
    "0",
    "1",
    "-1",
    "+1",
    "0x5",
    "ffffffffffffffff",
  ],
  ...[
    "Content-Length: 5\r\n",
    "Content-Length: 0\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Transfer-Encoding: gzip, chunked\r\n",
  ],
  ...[
    "Transfer-Encoding : chunked\r\n",
    "Transfer-Encoding:\x0bchunked\r\n",
    " folded\r\n",
    "Host: b.test\r\n",
    "0\r\n\r\n",
    "5\r\nhello\r\n",
  ],
  ...[
    "Connection: close\r\n",
    "Connection: Upgrade\r\nUpgrade: websocket\r\n",
    "Expect: 100-continue\r\n",
    "HTTP/1.0",
    "HTTP/2.0",
    "HTTP/1.1",
  ],
  ...[
    "GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n",
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "CONNECT a:1 ",
    "..%2f",
    "%00",
    "#",
    "?",
    "//",
  ],
];
