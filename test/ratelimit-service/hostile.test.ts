/** Invalid input at the ports: each gets a clear response, the process stays alive, and no counter is lost. */
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, afterEach, beforeAll, expect, onTestFinished, test } from "vitest";
import { connectRateLimit, descriptor, type RateLimitTestClient } from "../support/rate-limit-client.ts";
import { type RateLimitService, startRateLimitService } from "../support/ratelimit-process.ts";

const limits = "domain: d\ndescriptors:\n  - key: k\n    rate_limit: {unit: year, requests_per_unit: 1000000}\n";

let folder: string;
let service: RateLimitService;
let client: RateLimitTestClient;
let counted = 0;

const count = async () => {
  const { statuses } = await client.send({ domain: "d", descriptors: [descriptor("k=watched")] });
  counted++;
  return 1_000_000 - (statuses[0]?.limitRemaining ?? 0);
};

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "hostile-"));
  await writeFile(join(folder, "limits.yaml"), limits);
  service = await startRateLimitService(folder);
  client = connectRateLimit(service.grpcPort);
});
afterAll(async () => {
  client.close();
  await service.kill();
  await rm(folder, { recursive: true });
});
/** Whatever a test has sent: the counter keeps its value. */
afterEach(async () => {
  expect(await count()).toBe(counted);
  expect(service.child.exitCode).toBeNull();
});

async function sendBytes(port: number, bytes: Uint8Array): Promise<void> {
  const socket = connect(port, "127.0.0.1");
  socket.on("error", () => undefined);
  socket.resume();
  socket.end(bytes);
  await once(socket, "close");
}

test("garbage on the gRPC port", async () => {
  await fc.assert(
    fc.asyncProperty(fc.uint8Array({ maxLength: 300 }), (bytes) => sendBytes(service.grpcPort, bytes)),
    { numRuns: 100 },
  );
});

test("garbage after a valid beginning", async () => {
  const preface = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0", "latin1");
  await fc.assert(
    fc.asyncProperty(fc.uint8Array({ maxLength: 300 }), (bytes) =>
      sendBytes(service.grpcPort, Buffer.concat([preface, bytes])),
    ),
    { numRuns: 100 },
  );
});

test("a descriptor value of the maximum length is accepted", async () => {
  const call = { domain: "d", descriptors: [descriptor(`k=${"v".repeat(65_536)}`)] };
  const remaining = [];
  for (let times = 0; times < 2; times++) remaining.push((await client.send(call)).statuses[0]?.limitRemaining);

  expect(remaining).toEqual([999_999, 999_998]);
});

test("the maximum of entries in a descriptor is accepted, and matches nothing", async () => {
  const entries = Array.from({ length: 32 }, (_, index) => `k=${index}`);
  const { overallCode, statuses } = await client.send({ domain: "d", descriptors: [descriptor(...entries)] });

  expect([overallCode, statuses[0]?.currentLimit]).toEqual(["OK", null]);
});

test("the maximum of descriptors is accepted, each with a status", async () => {
  const descriptors = Array.from({ length: 256 }, (_, index) => descriptor(`k=many-${index}`));
  const { statuses } = await client.send({ domain: "d", descriptors });

  expect(statuses).toHaveLength(256);
  expect(statuses.every(({ limitRemaining }) => limitRemaining === 999_999)).toBe(true);
});

const many = (count: number) => Array.from({ length: count }, () => "k=watched");
const long = (length: number) => "v".repeat(length);

test.each([
  ["descriptors", { domain: "d", descriptors: many(257).map((entry) => descriptor(entry)) }],
  ["entries", { domain: "d", descriptors: [descriptor("k=watched"), descriptor(...many(33))] }],
  ["characters", { domain: "d", descriptors: [descriptor("k=watched"), descriptor(`k=${long(65_537)}`)] }],
  ["characters", { domain: long(65_537), descriptors: [descriptor("k=watched")] }],
])("a call with more %s than the maximum is rejected and counts nothing", async (what, call) => {
  expect(await client.outcome(call)).toMatchObject({ code: 3, details: expect.stringContaining(what) as string });
});

test("a message larger than the maximum", async () => {
  const call = { domain: "d", descriptors: [descriptor(`k=${long(300_000)}`)] };

  expect(await client.outcome(call)).toMatchObject({
    code: 8,
    details: expect.stringContaining("at most 262144") as string,
  });
});

test("the bounds are settings", async () => {
  const wide = await startRateLimitService(folder, {
    MAX_CALL_BYTES: "4194304",
    MAX_CALL_DESCRIPTORS: "300",
    MAX_DESCRIPTOR_ENTRIES: "2",
    MAX_TEXT_LENGTH: "1048576",
  });
  const wideClient = connectRateLimit(wide.grpcPort);
  onTestFinished(async () => {
    wideClient.close();
    await wide.kill();
  });
  const call = { domain: "d", descriptors: [...many(299), `k=${long(1_048_576)}`].map((entry) => descriptor(entry)) };

  expect((await wideClient.send(call)).statuses).toHaveLength(300);
  expect(await wideClient.outcome({ domain: "d", descriptors: [descriptor(...many(3))] })).toMatchObject({ code: 3 });
  const json = JSON.stringify({ domain: "d", descriptors: [{ entries: [{ key: "k", value: long(300_000) }] }] });
  expect((await fetch(`${wide.http}/json`, { method: "POST", body: json })).status).toBe(200);
});

test.each([
  ["an override without unit", { limit: { requestsPerUnit: 1 } }, "unit"],
  ["an override with an unknown unit", { limit: { requestsPerUnit: 1, unit: 99 as never } }, "unit"],
  ["an entry without key", { entries: [{ key: "", value: "v" }] }, "empty key"],
])("%s is rejected with its reason", async (_, change, reason) => {
  const call = { domain: "d", descriptors: [{ ...descriptor("k=v"), ...change }] };

  expect(await client.outcome(call)).toMatchObject({ code: 3, details: expect.stringContaining(reason) as string });
});

test("hits beyond the maximum of a counter are over every limit, for their own counter only", async () => {
  const descriptors = [{ ...descriptor("k=greedy"), hitsAddend: { value: "18446744073709551615" } }];
  expect(await client.outcome({ domain: "d", descriptors })).toMatchObject({ overallCode: "OVER_LIMIT" });
});

test.each([
  [
    "unknown fields",
    '{"domain": "d", "descriptors": [{"entries": [{"key": "k", "valu": "v"}]}]}',
    "descriptors[0].entries[0].valu: unknown field",
  ],
  ["no JSON", "}", "not JSON"],
  ["no domain", "{}", "rate limit domain must not be empty"],
])("%s in JSON gets 400 and the reason", async (_, body, reason) => {
  const response = await fetch(`${service.http}/json`, { method: "POST", body });

  expect(response.status).toBe(400);
  expect(await response.text()).toContain(reason);
});
