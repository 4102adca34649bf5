/**
 * A head is valid over HTTP/1 and over HTTP/2, or over neither: a client cannot choose the protocol with the weaker
 * rules. No head of a client makes a call to a backend fail, since its failures belong to the backend.
 */
import { once } from "node:events";
import { expect, test } from "vitest";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  routeManifest,
  startGateway,
} from "../support/gateway.ts";
import { startRawBackend } from "../support/raw-backend.ts";
import { rawHttp } from "../support/raw-http.ts";
import {
  endHeaders,
  endStream,
  frame,
  framesOf,
  frameType,
  literalBlock,
  openRawHttp2,
  type RawHttp2,
} from "../support/raw-http2.ts";

/** Parts of a request without a body; characters are bytes. */
interface Head {
  readonly method: string;
  readonly path: string;
  readonly value: string;
}

const plain: Head = { method: "GET", path: "/a", value: "b" };

/**
 * Every control character, space, and some bytes that are no ASCII. CR, LF and NUL end a line, or do not reach any
 * parser.
 */
const characters = [...Array.from({ length: 32 }, (_, code) => code), 0x20, 0x22, 0x3c, 0x7f, 0x80, 0xe4, 0xff]
  .filter((code) => ![0x00, 0x0a, 0x0d].includes(code))
  .map((code) => String.fromCharCode(code));

const heads: readonly (readonly [string, Head])[] = [
  ...characters.flatMap((character) => {
    const code = `0x${character.charCodeAt(0).toString(16).padStart(2, "0")}`;
    return [
      [`${code} in the method`, { ...plain, method: `GE${character}T` }],
      [`${code} in the path`, { ...plain, path: `/a${character}b` }],
      [`${code} in the query`, { ...plain, path: `/a?b${character}c` }],
      [`${code} in a value`, { ...plain, value: `a${character}b` }],
    ] as const;
  }),
  ...["get", "Get", "POST", "post", "PROPFIND", "FOO", "PRI", "GET ", "G".repeat(33), "CONNECT", "CONNECTED"].map(
    (method) => [`the method ${method}`, { ...plain, method }] as const,
  ),
  ...["*", "a", "//a", "/a#b", "/a/../b", "/%2e%2e/b"].map((path) => [`the path ${path}`, { ...plain, path }] as const),
];

/** Whether a response, or a reset, says that the request is invalid. */
type Outcome = "served" | "rejected" | `failed ${number}`;

function outcomeOf(status: number): Outcome {
  if (status === 200) return "served";
  // 0: closed without a response, as a client that breaks off the preface of HTTP/2.
  return [0, 400, 404, 501].includes(status) ? "rejected" : `failed ${status}`;
}

async function overHttp1(url: string, { method, path, value }: Head): Promise<Outcome> {
  const head = `${method} ${path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\nx-value: ${value}\r\n\r\n`;
  return outcomeOf((await rawHttp(url, head)).status);
}

async function overHttp2(url: string, { method, path, value }: Head): Promise<Outcome> {
  const client = openRawHttp2(url);
  const pseudo = [
    [":method", method],
    [":scheme", "http"],
    [":path", path],
    [":authority", "a"],
  ] as const;
  const block = literalBlock([...pseudo, ["x-value", value]]);
  client.socket.write(frame(frameType.headers, endHeaders | endStream, 1, block));
  const outcome = await outcomeOn(client);
  client.socket.destroy();
  return outcome;
}

/** The response to the only request of a connection. */
async function outcomeOn({ socket, received }: RawHttp2): Promise<Outcome> {
  for (;;) {
    const first = framesOf(received()).find(({ stream }) => stream === 1);
    if (first?.type === frameType.rstStream) return "rejected";
    if (first?.type === frameType.headers) return outcomeOf(statusIn(first.payload));
    await once(socket, "data");
  }
}

/** The status is the first field: an index of the static table, or a literal without Huffman code (RFC 7541 §A). */
function statusIn(block: Buffer): number {
  const start = block[0] === 0x20 ? 1 : 0;
  const index = (block[start] ?? 0) & 0x7f;
  if ((block[start] ?? 0) >= 0x80) return [200, 204, 206, 304, 400, 404, 500][index - 8] ?? 0;
  const length = block[start + 1] ?? 0;
  return Number(block.toString("latin1", start + 2, start + 2 + length));
}

test("every head is valid over both protocols, or over none, and no backend fails by it", async () => {
  // It serves every method, as the least strict of servers do.
  const methods = new Set<string>();
  const port = await startRawBackend((_path, method) => {
    methods.add(method);
    return "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
  });
  const route = routeManifest("all", [`backendRefs: [${backendRef("echo")}]`]);
  const gateway = await startGateway(manifests(gatewayManifest(), backendManifest("echo", port), route));
  const url = gateway.url();
  const differences: string[] = [];
  for (const [name, head] of heads) {
    const [first, second] = await Promise.all([overHttp1(url, head), overHttp2(url, head)]);
    if (first !== second || first.startsWith("failed")) differences.push(`${name}: ${first}, ${second}`);
  }
  expect(differences).toEqual([]);
  expect([...methods].sort()).toEqual(["GET", "POST", "PROPFIND"]);
  expect(gateway.records.filter(({ reason }) => reason?.startsWith("Upstream") === true)).toEqual([]);
});
