/** The same response of a backend has the same head and content, however it is segmented: framing and limit headers. */
import { once } from "node:events";
import { connect } from "node:net";
import { setImmediate as turn } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import {
  gatewayManifest,
  manifests,
  policyManifest,
  routeManifest,
  serviceManifest,
  startGateway,
} from "../support/gateway.ts";
import { startRawServer } from "../support/raw-backend.ts";
import { rawHttp } from "../support/raw-http.ts";

const head = (fields: string): string => `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n${fields}\r\n`;
const chunked = "transfer-encoding: chunked\r\n";
const usage = '{"usage":{"total_tokens":400}}';
const chunks = `${usage.length.toString(16)}\r\n${usage}\r\n0\r\n\r\n`;

/** A gateway in front of a backend that sends `response` split at `cuts`, with time between the pieces. */
async function serve(response: string, closes: boolean, local: readonly string[]) {
  let cuts: readonly number[] = [];
  const port = await startRawServer((socket) => {
    socket.setNoDelay(true);
    socket.on("data", () => {
      void (async () => {
        const ends = [...cuts, response.length];
        for (const [at, end] of ends.entries()) {
          socket.write(response.slice(ends[at - 1] ?? 0, end), "latin1");
          // Until the gateway has read it, so that the next piece arrives in another read.
          for (let turns = 0; turns < 20; turns++) await turn();
        }
        if (closes) socket.end();
      })();
    });
  });
  const policy = local.length === 0 ? [] : [policyManifest("p", "kind: HTTPRoute, name: a", local)];
  const route = routeManifest("a", ["backendRefs: [{ name: a, port: 80 }]"]);
  const gateway = await startGateway(manifests(gatewayManifest(), serviceManifest("a", [port]), route, ...policy));
  return async (version: string, method: string, at: readonly number[]): Promise<string> => {
    cuts = at;
    const body = "content-length: 2\r\n\r\n{}";
    const request = `${method} /v1/embeddings HTTP/${version}\r\nhost: a\r\nconnection: close\r\n${body}`;
    const { head: fields, body: sent } = await rawHttp(gateway.url(), request);
    // A new window for each, so that every response has the same remaining amount.
    gateway.clock.advance(60_000);
    return `${fields.replace(/^date: .*\r\n/im, "")}\r\n\r\n${/: chunked/.test(fields) ? content(sent) : sent}`;
  };
}

/** The content of chunks, whose boundaries have no meaning (RFC 9112 §7.1). */
function content(chunked: string): string {
  let rest = chunked;
  let text = "";
  for (let size = -1; size !== 0; ) {
    const start = rest.indexOf("\r\n") + 2;
    size = Number.parseInt(rest, 16);
    text += rest.slice(start, start + size);
    rest = rest.slice(start + size + 2);
  }
  expect(rest).toBe("");
  return text;
}

const responses = [
  ["chunked", head(chunked) + chunks, false],
  ["of a known length", head(`content-length: ${usage.length}\r\n`) + usage, false],
  ["that ends with its connection", head("") + usage, true],
  ["chunked and empty", `${head(chunked)}0\r\n\r\n`, false],
  ["without content", "HTTP/1.1 204 No Content\r\n\r\n", false],
  ["that resets the content", "HTTP/1.1 205 Reset Content\r\ncontent-length: 0\r\n\r\n", false],
] as const;

describe.each(responses)("a response %s", (name, response, closes) => {
  test.each([
    ["1.1", "without limits", []],
    ["1.0", "without limits", []],
    ["1.1", "under a limit by tokens", ["{ tokens: 1000, unit: Minutes }"]],
  ])("is sent alike over HTTP/%s %s, wherever it is split", async (version, _limits, local) => {
    const send = await serve(response, closes, local);
    const headEnd = response.indexOf("\r\n\r\n") + 4;
    const whole = await send(version, "POST", []);
    for (const cuts of [
      [headEnd],
      [headEnd + 1],
      [headEnd + 6],
      [headEnd, headEnd + 4, response.length - 3],
      [response.length - 1],
    ]) {
      expect(
        await send(
          version,
          "POST",
          cuts.filter((cut) => cut < response.length),
        ),
      ).toBe(whole);
    }
    const isLengthSent = response.includes("content-length");
    expect(/^content-length:/im.test(whole)).toBe(isLengthSent);
    const isChunked = version === "1.1" && !isLengthSent && name !== "without content";
    expect(/^transfer-encoding: chunked/im.test(whole)).toBe(isChunked);
  });
});

test("a small chunked response that arrives completely is sent in one write", async () => {
  const port = await startRawServer((socket) => socket.on("data", () => socket.write(head(chunked) + chunks)));
  const route = routeManifest("a", ["backendRefs: [{ name: a, port: 80 }]"]);
  const gateway = await startGateway(manifests(gatewayManifest(), serviceManifest("a", [port]), route));
  const { hostname, port: listening } = new URL(gateway.url());
  const client = connect(Number(listening), hostname, () => client.write("GET / HTTP/1.1\r\nhost: a\r\n\r\n"));
  const [piece] = (await once(client, "data")) as [Buffer];
  expect(piece.toString("latin1").endsWith(`\r\n\r\n${chunks}`)).toBe(true);
  client.destroy();
});

test("the head of a response that is no stream shows the remaining amount after its charge", async () => {
  const send = await serve(head(chunked) + chunks, false, [
    "{ requests: 15, unit: Minutes }",
    "{ tokens: 1000, unit: Minutes }",
  ]);
  const headEnd = head(chunked).length;
  for (const cuts of [[], [headEnd], [headEnd + 10, headEnd + 20]]) {
    expect(await send("1.1", "POST", cuts)).toMatch(/x-ratelimit-limit: 1000\r\nx-ratelimit-remaining: 600\r\n/);
  }
});
