/**
 * A marker in every place of the rate limit service that may contain a secret appears in no output: the log at its
 * finest level, limits, match, counters, metrics, errors of invalid calls, problems of configuration and settings.
 */
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, onTestFinished, test } from "vitest";
import { connectRateLimit, descriptor } from "../support/rate-limit-client.ts";
import { spawnRateLimitService, startRateLimitService } from "../support/ratelimit-process.ts";

const marker = "MARK5f3a9c";
/** Has the form of a credential, whatever its name. */
const credential = `sk-proj-${marker}${marker}`;

/** Names that mark the value as a secret. */
const names = ["authorization", "x-api-key", "session_id", "jwt"];

const limits = `
domain: d
descriptors:
  - key: plan
    value: ${credential}
    rate_limit: { unit: hour, requests_per_unit: 7 }
${names
  .flatMap((name) => ["detailed_metric", "value_to_metric"].map((metric) => ({ name, metric })))
  .map(
    ({ name, metric }) => `
  - key: ${metric}
    value: ${name}
    descriptors:
      - { key: ${name}, ${metric}: true, rate_limit: { unit: hour, requests_per_unit: 7 } }`,
  )
  .join("")}
  - key: user
    detailed_metric: true
    rate_limit: { unit: hour, requests_per_unit: 7 }
`;

const wrongLimits = `
domain: wrong
descriptors:
  - { key: plan, value: ${credential}, rate_limit: { unit: ${credential}, requests_per_unit: 1 } }
  - { key: plan, value: ${credential}, rate_limit: { unit: hour, requests_per_unit: "${credential}" } }
`;

async function folderOf(files: Readonly<Record<string, string>>): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "redaction-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  for (const [name, content] of Object.entries(files)) await writeFile(join(folder, name), content);
  return folder;
}

test("a secret in a call or in the limits is in no output", async () => {
  const folder = await folderOf({ "limits.yaml": limits, "wrong.yaml": wrongLimits });
  const service = await startRateLimitService(folder, { LOG_LEVEL: "trace", USE_PROMETHEUS: "false" });
  onTestFinished(() => service.kill());
  const client = connectRateLimit(service.grpcPort);
  onTestFinished(() => client.close());
  const calls = [
    descriptor(`plan=${credential}`),
    descriptor(`user=${credential}`),
    ...names.flatMap((name) => [
      descriptor(`detailed_metric=${name}`, `${name}=${marker}`),
      descriptor(`value_to_metric=${name}`, `${name}=${marker}`),
    ]),
  ];
  const { statuses } = await client.send({ domain: "d", descriptors: calls });
  expect(statuses.map(({ limitRemaining }) => limitRemaining)).toEqual(calls.map(() => 6));
  const unknown = await client.outcome({ domain: credential, descriptors: calls });
  const wrong = await client.outcome({ domain: "d", descriptors: [{ entries: [{ key: "", value: marker }] }] });
  const json = async (body: unknown) =>
    (await fetch(`${service.http}/json`, { method: "POST", body: JSON.stringify(body) })).text();
  const entry = { key: "authorization", value: marker };
  const responses = [
    await json({ domain: "d", descriptors: [{ entries: [entry] }] }),
    await json({ domain: "d", descriptors: [{ entries: [entry], hitsAddend: credential }] }),
    await json({ domain: "d", descriptors: [{ entries: [entry], limit: { unit: credential, requestsPerUnit: 1 } }] }),
    await json({ domain: "d", [credential]: 1 }),
    await (await fetch(`${service.http}/json`, { method: "POST", body: `{"domain": ${credential}` })).text(),
    await (await fetch(`${service.http}/${credential}`)).text(),
  ];
  const matches = [...names.map((name) => [name, marker]), ["plan", credential]].map(([name, value]) => {
    return `match?domain=d&${String(name)}=${String(value)}`;
  });
  const paths = ["rlconfig", "config_status", "counters", "stats", "metrics", ...matches];
  const pages = await Promise.all(paths.map(async (path) => (await fetch(`${service.debug}/${path}`)).text()));
  const asJson = await fetch(`${service.debug}/rlconfig`, { headers: { accept: "application/json" } });
  pages.push(await asJson.text());

  const shown = { unknown, wrong, responses, pages, log: service.output };
  for (const [source, output] of Object.entries(shown)) expect(JSON.stringify(output), source).not.toContain(marker);
  expect(pages.join()).toContain("authorization");
}, 60_000);

test.each([
  [`redis://user:${marker}@127.0.0.1:1`, ""],
  ["127.0.0.1:1", `user:${marker}`],
  [`redis://user:${marker}@127.0.0.1:port`, ""],
])(
  "a password of Redis is in no output: %s",
  async (url, auth) => {
    const folder = await folderOf({ "limits.yaml": limits });
    const child = spawnRateLimitService(["--config-dir", folder], {
      ...{ REDIS_URL: url, REDIS_STARTUP_MAX_ELAPSED_TIME: "1ms", LOG_LEVEL: "trace" },
      ...{ GRPC_PORT: "0", PORT: "0", DEBUG_PORT: "0" },
      ...(auth === "" ? {} : { REDIS_AUTH: auth }),
    });
    const outputs = [child.stdout, child.stderr].map(async (stream) => (stream === null ? "" : text(stream)));
    const output = (await Promise.all(outputs)).join("");
    if (child.exitCode === null) await once(child, "exit");
    expect(child.exitCode).not.toBe(0);
    expect(output).not.toBe("");
    expect(output).not.toContain(marker);
  },
  60_000,
);
