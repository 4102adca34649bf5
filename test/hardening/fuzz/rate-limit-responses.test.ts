/**
 * Frames and messages of a hostile rate limit service: every request gets a response, and the proxy has no internal
 * error.
 */
import { expect } from "vitest";
import { respondWith, startBackend } from "../../support/backend.ts";
import { byAddress, globalPolicy, serveUnder } from "../../support/global-policy.ts";
import { frameType, startRawHttp2Backend } from "../../support/raw-http2.ts";
import { parseItems } from "../../support/structured-fields.ts";
import { mutated } from "../support/arbitraries.ts";
import { fuzz } from "../support/fuzz.ts";
import { frameText, http2Tokens } from "../support/http2-seeds.ts";
import { perTest } from "../support/per-test.ts";

/** `:status 200` and `content-type: application/grpc` (RFC 7541 §A). */
const head = Buffer.concat([Buffer.from([0x88, 0x5f, 16]), Buffer.from("application/grpc")]);
const trailers = Buffer.concat([Buffer.from([0, 11]), Buffer.from("grpc-status"), Buffer.from([1, 0x30])]);
/** RateLimitResponse: overall code; one status with a limit; a header to add. */
const messages = [
  [8, 1],
  [8, 2, 18, 8, 8, 2, 18, 4, 8, 5, 16, 2],
  [8, 1, 26, 6, 10, 1, 97, 18, 1, 98],
];
const frameOf = (message: readonly number[]): string =>
  frameText(frameType.headers, 4, 1, head) +
  frameText(frameType.data, 0, 1, Buffer.from([0, 0, 0, 0, message.length, ...message])) +
  frameText(frameType.headers, 5, 1, trailers);
const tokens = [
  "\x08\x01",
  "\x12\xff\x7f",
  "\x1a\x00",
  "\x0d\0\0\0\0",
  "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
  "\r\nx: y",
];

const world = perTest(async () => {
  const next = { response: "" };
  const port = await startRawHttp2Backend((frames, socket) => {
    if (!frames.some(({ type }) => type === frameType.data)) return;
    socket.write(next.response, "latin1");
    setTimeout(() => socket.end(), 5);
  });
  const backend = await startBackend(respondWith(200, "ok"));
  const global = globalPolicy(`address: '127.0.0.1:${port}', ${byAddress}`);
  const policy = `${global}      headers: [XRateLimit, Ietf, OpenAI]\n      denied: { format: Problem }\n`;
  return { gateway: await serveUnder(backend, policy), next };
});

fuzz("rate-limit-responses", {
  prepare: world,
  arbitrary: mutated(messages.map(frameOf), [...tokens, ...http2Tokens]),
  async check(text) {
    const { gateway, next } = await world();
    next.response = text;
    const response = fetch(gateway.url());
    // Reaches the timeout of the call, and the pauses of the breaker.
    const timer = setInterval(() => gateway.clock.advance(100), 20);
    const { status, headers } = await response.finally(() => clearInterval(timer));
    expect([200, 429]).toContain(status);
    for (const field of [headers.get("ratelimit"), headers.get("ratelimit-policy")]) {
      if (field !== null) expect(parseItems(field)).not.toEqual([]);
    }
    expect(gateway.internalErrors).toEqual([]);
  },
});
