/** The log of a call at each level. */
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { connectRateLimit, descriptor } from "../support/rate-limit-client.ts";
import { startRateLimitService } from "../support/ratelimit-process.ts";

const example = fileURLToPath(new URL("../../examples/ratelimit/config", import.meta.url));

type Line = Readonly<Record<string, unknown>>;

/** Makes eleven calls of which the last is denied, and one without a limit; resolves with the lines of the log. */
async function linesAt(level: string): Promise<readonly Line[]> {
  const service = await startRateLimitService(example, { LOG_LEVEL: level, WORKERS: "1" });
  onTestFinished(() => service.kill());
  const client = connectRateLimit(service.grpcPort);
  onTestFinished(() => client.close());
  const limited = { domain: "chat", descriptors: [descriptor("remote_address=198.51.100.1")] };
  for (let call = 0; call < 11; call++) await client.send(limited);
  await client.send({ domain: "chat", descriptors: [descriptor("api_key=canary-0123456789")] });
  await (await fetch(`${service.debug}/stats?token=canary-2`)).text();
  const read = (): readonly Line[] => service.output.map((line) => JSON.parse(line) as Line);
  const isLast = ({ module, msg }: Line): boolean => module === "ratelimit::http" && msg === "response sent";
  if (level !== "info") await expect.poll(() => read().some(isLast)).toBe(true);
  return read();
}

const named = (lines: readonly Line[], message: string): readonly Line[] => lines.filter(({ msg }) => msg === message);

test("at debug each call has a line with its limit and the numbers", async () => {
  const lines = await linesAt("debug");
  const allowed = named(lines, "limit allowed");
  expect(allowed).toHaveLength(11);
  expect(allowed[0]).toMatchObject({
    ...{ level: "debug", module: "ratelimit::grpc", domain: "chat", code: "OK" },
    limits: [expect.stringMatching(/^remote_address=198\.51\.100\.1: OK, 9 of 10 per MINUTE left, resets in \d+ s$/)],
  });
  expect(named(lines, "limit denied")[0]).toMatchObject({
    limits: [expect.stringMatching(/^remote_address=198\.51\.100\.1: OVER_LIMIT, 0 of 10 per MINUTE left/)],
  });
  expect(allowed[10]).toMatchObject({ limits: [expect.stringMatching(/^api_key=sha256:.*: OK, no limit$/)] });
  expect(named(lines, "limit loaded").length).toBeGreaterThan(0);
  expect(named(lines, "response sent")[0]).toMatchObject({ path: "/stats?token=<redacted>", status: 200 });
  expect(named(lines, "call received")).toEqual([]);
  expect(JSON.stringify(lines)).not.toContain("canary");
}, 60_000);

test("at trace the received calls and the counters are added", async () => {
  const lines = await linesAt("trace");
  expect(named(lines, "call received")[0]).toMatchObject({
    ...{ module: "ratelimit::grpc", domain: "chat" },
    descriptors: [{ entries: "remote_address=198.51.100.1" }],
  });
  expect(named(lines, "counter updated")[1]).toMatchObject({ limit: 10, unit: "MINUTE", cost: 1, after: 2 });
  expect(JSON.stringify(lines)).not.toContain("canary");
}, 60_000);
