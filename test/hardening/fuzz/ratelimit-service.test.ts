/**
 * Bytes at the ports of the rate limit service, and its configuration: the process stays alive, and counters are
 * correct.
 */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished } from "vitest";
import { parseConfigFile } from "../../../ratelimit-service/src/config/config-file.ts";
import { buildDomain } from "../../../ratelimit-service/src/config/descriptor-tree.ts";
import { connectRateLimit, descriptor } from "../../support/rate-limit-client.ts";
import { startRateLimitService } from "../../support/ratelimit-process.ts";
import { mutated } from "../support/arbitraries.ts";
import { fuzz } from "../support/fuzz.ts";
import { frameText, http2Tokens } from "../support/http2-seeds.ts";
import { perTest } from "../support/per-test.ts";

const limit = 1_000_000;
const config = `domain: d
descriptors:
  - key: k
    value: watched
    rate_limit: {unit: year, requests_per_unit: ${limit}}
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 5, unlimited: false}
    shadow_mode: true
    descriptors:
      - key: path
        value: /a*
        rate_limit: {unit: hour, unit_multiplier: 2, requests_per_unit: 7, name: n, replaces: [{name: m}]}
  - key: both
    count_denied: true
    rate_limits:
      - {unit: minute, requests_per_unit: 7, window: sliding}
      - {unit: month, requests_per_unit: 7, calendar: true, timezone: Europe/Berlin}
`;

const world = perTest(async () => {
  const folder = await mkdtemp(join(tmpdir(), "fuzzed-"));
  await writeFile(join(folder, "limits.yaml"), config);
  const service = await startRateLimitService(folder);
  const client = connectRateLimit(service.grpcPort);
  onTestFinished(async () => {
    client.close();
    await service.kill();
    await rm(folder, { recursive: true });
  });
  let counted = 0;
  return {
    service,
    /** Nothing that another client sends changes this counter. */
    isRight: async () => {
      const { statuses } = await client.send({ domain: "d", descriptors: [descriptor("k=watched")] });
      expect(limit - (statuses[0]?.limitRemaining ?? 0)).toBe(++counted);
      expect(service.child.exitCode).toBeNull();
    },
  };
});

const path = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
/** POST, http, path and content type of a call, in HPACK. */
const head = Buffer.concat([
  Buffer.from([0x83, 0x86, 0x04, path.length]),
  Buffer.from(path),
  Buffer.from([0x41, 1, 0x61, 0x0f, 0x10, 16]),
  Buffer.from("application/grpc"),
]);
/** RateLimitRequest: domain `d`, a descriptor `user=x`. */
const message = [10, 1, 100, 18, 11, 10, 9, 10, 4, 117, 115, 101, 114, 18, 1, 120];
const hello = `PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n${frameText(4, 0, 0)}`;
const call = (stream: number): string =>
  frameText(1, 4, stream, head) + frameText(0, 1, stream, Buffer.from([0, 0, 0, 0, message.length, ...message]));

fuzz("ratelimit-service-grpc", {
  prepare: world,
  arbitrary: mutated([hello + call(1), hello + call(1) + call(3)], http2Tokens),
  async check(text) {
    const { service, isRight } = await world();
    await new Promise<void>((resolve) => {
      const socket = connect(service.grpcPort, "127.0.0.1", () => socket.write(text, "latin1"));
      socket.setTimeout(30, () => void socket.destroy());
      socket.on("error", () => undefined);
      socket.on("close", () => resolve());
      socket.resume();
    });
    await isRight();
  },
});

const json =
  '{"domain": "d", "descriptors": [{"entries": [{"key": "user", "value": "x"}], "hitsAddend": "2"}], "hitsAddend": 1}';

fuzz("ratelimit-service-json", {
  prepare: world,
  arbitrary: mutated(
    [json],
    [
      "{",
      "}",
      "[",
      "]",
      '"',
      ",",
      ":",
      "null",
      "-1",
      "1e999",
      "\\u0000",
      "\\ud800",
      '"__proto__":',
      '"limit": {"unit": "DAY"},',
      "[".repeat(500),
    ],
  ),
  async check(text) {
    const { service, isRight } = await world();
    const headers = { "content-type": "application/json" };
    const response = await fetch(`${service.http}/json`, {
      method: "POST",
      headers,
      body: Buffer.from(text, "latin1"),
    });
    await response.arrayBuffer();
    expect(response.status).toBeLessThan(500);
    await isRight();
  },
});

fuzz("ratelimit-service-yaml", {
  quickRuns: 200,
  arbitrary: mutated(
    [config],
    [
      "*x",
      "&x ",
      "<<: *x",
      "!!binary ",
      "? ",
      "- ",
      "\t",
      "|\n",
      "\0",
      "{",
      "[",
      "-1",
      "1e999",
      "0x10",
      ".nan",
      "null",
      "domain: d\n",
      "key: k\n",
      "unit: year, unit_multiplier: 4294967295, calendar: true, ",
      "timezone: Pacific/Apia, ",
      "rate_limits: [{}, {}]\n",
    ],
  ),
  check(text) {
    const { spec } = parseConfigFile("fuzzed", "fuzzed.yaml", text);
    if (spec !== undefined) expect(buildDomain(spec).problems).toBeInstanceOf(Array);
  },
});
