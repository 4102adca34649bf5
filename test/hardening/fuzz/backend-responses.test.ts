/**
 * Bytes of backends, over HTTP/1 and HTTP/2: the client gets one well-formed response or none, and never the response
 * to another request.
 */
import { expect } from "vitest";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  routeManifest,
  startGateway,
} from "../../support/gateway.ts";
import { startHttp2Gateway } from "../../support/http2-gateway.ts";
import { startRawServer } from "../../support/raw-backend.ts";
import { rawHttp } from "../../support/raw-http.ts";
import { frameType, startRawHttp2Backend } from "../../support/raw-http2.ts";
import { mutated } from "../support/arbitraries.ts";
import { fuzz } from "../support/fuzz.ts";
import { http2Tokens, serverFrames } from "../support/http2-seeds.ts";
import { perTest } from "../support/per-test.ts";
import { readResponses } from "../support/strict-http1.ts";

const requestText = (path: string): string => `GET ${path} HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n`;
const fixed = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfixed";

const seeds = [
  "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x-t\r\n\r\n5\r\nhello\r\n0\r\nX-T: 1\r\n\r\n",
  "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello",
  "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
  "HTTP/1.1 204 No Content\r\nX-A: b\r\n\r\n",
  "HTTP/1.1 304 Not Modified\r\nETag: a\r\n\r\n",
  "HTTP/1.1 302 Found\r\nLocation: /x\r\nSet-Cookie: a=b\r\nSet-Cookie: c=d\r\nContent-Length: 0\r\n\r\n",
];
const tokens = [
  ...[
    "\r\n",
    "\n",
    "\r",
    " ",
    ":",
    "\0",
    "\x7f",
    "\xff",
    "0",
    "5\r\nhello\r\n",
    "0\r\n\r\n",
    "ffffffff\r\n",
    "HTTP/1.0",
    "HTTP/2",
  ],
  ...[
    "Content-Length: 5\r\n",
    "Content-Length: 99\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Transfer-Encoding: gzip, chunked\r\n",
  ],
  ...[
    "Connection: upgrade\r\nUpgrade: h2c\r\n",
    " folded\r\n",
    "100",
    "101",
    "199",
    "600",
    "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison",
  ],
];

const http1 = perTest(async () => {
  const next = { response: "" };
  const port = await startRawServer((socket) => {
    socket.on("data", (chunk: Buffer) => {
      const isFixed = chunk.toString("latin1").startsWith("GET /fixed ");
      socket.write(isFixed ? fixed : next.response, "latin1");
      // Whatever the head has announced, no more bytes are sent.
      if (!isFixed) setTimeout(() => socket.end(), 5);
    });
  });
  const route = routeManifest("r", [`backendRefs: [${backendRef("b")}]`]);
  const gateway = await startGateway(manifests(gatewayManifest(), backendManifest("b", port), route));
  return { gateway, next };
});

fuzz("http1-responses", {
  prepare: http1,
  arbitrary: mutated(seeds, tokens),
  async check(text) {
    const { gateway, next } = await http1();
    next.response = text;
    const { status, head, body } = await rawHttp(gateway.url(), requestText("/"));
    if (status !== 0) {
      const { messages, rest } = readResponses(`HTTP/1.1 ${status} x\r\n${head}\r\n\r\n${body}`);
      // A body that the backend truncates is truncated for the client too.
      expect(rest).not.toBe("invalid");
      expect(messages.length).toBeLessThanOrEqual(1);
    }
    // A connection that the backend has just closed may be chosen: 502. Bytes of another response must not arrive.
    const other = await rawHttp(gateway.url(), requestText("/fixed"));
    expect([200, 502]).toContain(other.status);
    if (other.status === 200) expect(other.body).toBe("fixed");
    expect(gateway.internalErrors).toEqual([]);
  },
});

const http2 = perTest(async () => {
  const next = { response: "" };
  const port = await startRawHttp2Backend((frames, socket) => {
    if (!frames.some(({ type }) => type === frameType.headers)) return;
    socket.write(next.response, "latin1");
    setTimeout(() => socket.end(), 5);
  });
  return { gateway: await startHttp2Gateway([port]), next };
});

fuzz("http2-responses", {
  prepare: http2,
  arbitrary: mutated(serverFrames, http2Tokens),
  async check(text) {
    const { gateway, next } = await http2();
    next.response = text;
    const { status, head, body } = await rawHttp(gateway.url(), requestText("/"));
    if (status !== 0) {
      const { messages, rest } = readResponses(`HTTP/1.1 ${status} x\r\n${head}\r\n\r\n${body}`);
      expect(rest).not.toBe("invalid");
      expect(messages.length).toBeLessThanOrEqual(1);
    }
    expect(gateway.internalErrors).toEqual([]);
  },
});
