import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { proxyctl } from "../testing/run.ts";

const policy = `
apiVersion: gatewayproxy.dev/v1alpha1
kind: ProxyPolicy
metadata: { name: chat-limits }
spec:
  targetRefs:
    - { group: gateway.networking.k8s.io, kind: HTTPRoute, name: chat }
  traffic:
    rateLimit:
      local:
        - { requests: 10, unit: Minutes, burst: 5 }
        - { tokens: 1000, unit: Minutes }
`;

/** A line of the access log as the proxy writes it. */
function logLine(second: number, fields: Readonly<Record<string, unknown>> = {}): string {
  return JSON.stringify({
    level: "info",
    time: new Date(Date.UTC(2026, 10, 21, 10, 0, second)).toISOString(),
    module: "proxy::access",
    source: "10.0.0.1",
    method: "POST",
    scheme: "http",
    authority: "chat.example.com",
    path: "/v1/chat/completions",
    listener: "default/web/http",
    route: "default/chat",
    rule: "default/chat/0",
    status: 200,
    durationMs: 0,
    msg: "request",
    ...fields,
  });
}

/** Runs `limits test` on files with these manifests and this log; without a log `args` make up a load. */
async function limitsTest(manifests: string, log: readonly string[], ...args: string[]) {
  const directory = await mkdtemp(join(tmpdir(), "proxyctl-limits-"));
  try {
    await writeFile(`${directory}/policy.yaml`, manifests);
    await writeFile(`${directory}/access.jsonl`, log.join("\n"));
    const run = ["limits", "test", "-f", `${directory}/policy.yaml`];
    const source = log.length > 0 ? ["--log", `${directory}/access.jsonl`] : [];
    return await proxyctl([...run, ...source, ...args]);
  } finally {
    await rm(directory, { recursive: true });
  }
}

interface ReplayData {
  readonly allowed: number;
  readonly denied: number;
  readonly entries: readonly { readonly entry: number; readonly allowed: number; readonly denied: number }[];
}

async function replayed(manifests: string, log: readonly string[], ...args: string[]): Promise<ReplayData> {
  const { stdout } = await limitsTest(manifests, log, "-o", "json", ...args);
  return JSON.parse(stdout) as ReplayData;
}

describe("limits test", () => {
  test("prints what each entry would have allowed and denied", async () => {
    const run = await limitsTest(policy, [], "--rate", "20/m", "--duration", "2m", "--tokens", "10");
    expect(run).toMatchObject({ exitCode: 0, stderr: "" });
    await expect(run.stdout).toMatchFileSnapshot("testdata/limits-test.txt");
  });

  test("exits with 1 with --fail-on-deny when anything would have been denied, and only then", async () => {
    const run = async (rate: string) => (await limitsTest(policy, [], "--rate", rate, "--fail-on-deny")).exitCode;
    expect(await run("15/m")).toBe(0);
    expect(await run("16/m")).toBe(1);
  });

  test("takes the time from the log: a new window allows requests again", async () => {
    const burst = Array.from({ length: 20 }, () => logLine(0));
    const later = Array.from({ length: 20 }, () => logLine(60));
    expect(await replayed(policy, burst)).toMatchObject({ allowed: 15, denied: 5 });
    expect(await replayed(policy, [...burst, ...later])).toMatchObject({ allowed: 25, denied: 15 });
  });

  test("charges tokens at the end of the response, not at its start", async () => {
    const long = logLine(30, { durationMs: 30_000, totalTokens: 1200 });
    const log = [long, logLine(10), logLine(40)];
    expect(await replayed(policy, log)).toMatchObject({
      entries: [
        { entry: 0, allowed: 2, denied: 0 },
        { entry: 1, allowed: 2, denied: 1 },
      ],
    });
  });

  test("takes a request of less than a millisecond to begin after the one that its client waited for", async () => {
    const first = logLine(0, { time: "2026-11-21T10:00:00.718Z", durationMs: 20.25, totalTokens: 1200 });
    const next = logLine(0, { time: "2026-11-21T10:00:00.718Z", durationMs: 0.4 });
    const later = logLine(0, { time: "2026-11-21T10:00:00.719Z", durationMs: 1.4 });
    expect(await replayed(policy, [first, next, later])).toMatchObject({ allowed: 1, denied: 2 });
  });

  test("estimates the usage of a request that was denied when it was logged", async () => {
    const log = [logLine(0, { totalTokens: 600 }), logLine(1, { status: 429 }), logLine(2)];
    const run = await limitsTest(policy, log);
    expect(run.stdout).toContain("2 allowed, 1 denied");
    expect(run.stderr).toBe(
      "note: 1 requests were denied when they were logged; their usage is the average of the others\n",
    );
  });

  test("routes a request that no rule is known of as the proxy would", async () => {
    const manifests = `${policy}---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: { name: web }
spec:
  gatewayClassName: gateway-proxy
  listeners: [{ name: http, protocol: HTTP, port: 80 }]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: { name: chat }
spec:
  parentRefs: [{ name: web }]
  rules: [{ matches: [{ path: { value: /v1 } }] }]
`;
    const run = async (path: string) =>
      (await limitsTest(manifests, [], "--rate", "60/m", "--url", `http://h${path}`)).stdout;
    expect(await run("/v1/chat")).toContain("15 allowed, 45 denied\n");
    expect(await run("/other")).toContain("0 allowed, 0 denied, 60 that match no rule\n");
  });

  test("gives each value of a key its own counter, from the headers of the log", async () => {
    const keyed = policy.replace("burst: 5", `key: 'request.headers["x-user"]'`);
    const log = Array.from({ length: 24 }, (_, at) =>
      logLine(0, { headers: { "X-User": at % 2 === 0 ? "ada" : "bob" } }),
    );
    expect(await replayed(keyed, log)).toMatchObject({ allowed: 20, denied: 4 });
    const bare = await limitsTest(keyed, [logLine(0)]);
    expect(bare.stderr).toContain("note: an expression reads request.headers, which these requests do not have");
  });

  test("skips lines that are no requests, and says so", async () => {
    const run = await limitsTest(policy, ['{"msg":"ready"}', "garbage", logLine(0)]);
    expect(run.stdout).toContain("1 requests in 0.0s: 1 allowed, 0 denied\n");
    expect(run.stderr).toMatch(/^note: 2 lines of .* are not requests and were skipped\n$/);
  });

  test("reports the problems of the manifests", async () => {
    const run = await limitsTest(policy.replace("Minutes, burst", "Minute, burst"), [logLine(0)]);
    expect(run).toMatchObject({ exitCode: 2, stdout: "" });
    expect(run.stderr).toContain(`policy.yaml:11:33 ProxyPolicy default/chat-limits`);
    expect((await proxyctl(["limits", "test", "-f", "-"], { input: policy })).exitCode).toBe(64);
  });
});

const globalPolicy = `
apiVersion: gatewayproxy.dev/v1alpha1
kind: ProxyPolicy
metadata: { name: shared }
spec:
  targetRefs: [{ group: gateway.networking.k8s.io, kind: HTTPRoute, name: chat }]
  traffic:
    rateLimit:
      local: [{ requests: 12, unit: Minutes }]
      global:
        address: 127.0.0.1:8081
        domain: chat
        descriptors:
          - entries: [{ name: user, expression: 'request.headers["x-user"]' }]
          - { unit: Tokens, entries: [{ name: model, expression: llm.requestModel }] }
`;
const serviceConfig = `
domain: chat
descriptors:
  - { key: user, rate_limit: { unit: minute, requests_per_unit: 8 } }
  - { key: model, rate_limit: { unit: hour, requests_per_unit: 1000 } }
`;

describe("limits test of spend", () => {
  const budget = `
apiVersion: gatewayproxy.dev/v1alpha1
kind: ProxyPolicy
metadata: { name: budget }
spec:
  targetRefs:
    - { group: gateway.networking.k8s.io, kind: HTTPRoute, name: chat }
  traffic:
    rateLimit:
      local:
        - { name: month, spend: "2.50", unit: Months, window: Calendar }
`;
  const backend = `---
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: { name: llm }
spec:
  ai:
    provider: { openai: {} }
    currency: EUR
    prices: { m: { input: "1", output: "2" } }
`;
  const spent = (second: number, fields: object = {}) =>
    logLine(second, {
      ...{ backend: "Backend/default/llm", requestModel: "m", currency: "USD", cost: 1 },
      ...{ inputTokens: 100_000, outputTokens: 100_000, totalTokens: 200_000 },
      ...fields,
    });
  const log = [spent(0), spent(1), spent(2), spent(3), spent(4, { cost: undefined, requestModel: "unknown" })];

  test("counts the costs of the log, and prints what it would have cost", async () => {
    const { stdout } = await limitsTest(budget, log);
    expect(stdout).toContain("2.50 spend/calendar month in UTC");
    expect(stdout).toContain("at a cost of 3.00 USD (4.00 USD without limits)");
    expect(JSON.parse((await limitsTest(budget, log, "-o", "json")).stdout)).toMatchObject({
      ...{ allowed: 3, denied: 2, cost: 3, costWithoutLimits: 4, currency: "USD" },
      entries: [{ name: "month", allowed: 3, denied: 2, cost: 3 }],
    });
  });

  test("counts by the prices of the manifests, and denies a model without a price", async () => {
    const { stdout } = await limitsTest(budget + backend, log.toReversed());
    expect(stdout).toContain("4 allowed, 1 denied, at a cost of 1.20 EUR (1.20 EUR without limits)");
  });

  test("a generated load has a cost without tokens", async () => {
    const { stdout } = await limitsTest(budget, [], "--rate", "1/s", "--cost", "0.5", "--duration", "10s");
    expect(stdout).toContain("10 requests in 9.0s: 5 allowed, 5 denied, at a cost of 2.50 (5.00 without limits)");
    expect((await limitsTest(budget, [], "--rate", "1/s", "--cost", "1e3")).exitCode).toBe(64);
  });
});

describe("limits test of global limits", () => {
  /** Runs with the service's limits in a file of the same folder. */
  async function globalTest(manifests: string, config: string | undefined, log: readonly string[], ...args: string[]) {
    const directory = await mkdtemp(join(tmpdir(), "proxyctl-service-"));
    try {
      if (config !== undefined) await writeFile(`${directory}/chat.yaml`, config);
      const service = config === undefined ? [] : ["--ratelimit-config", directory];
      return await limitsTest(manifests, log, ...service, ...args);
    } finally {
      await rm(directory, { recursive: true });
    }
  }
  const by = (user: string, second = 0, fields: object = {}): string =>
    logLine(second, { headers: { "x-user": user }, ...fields });

  test("are counted by the service's own limiter, from its own files", async () => {
    const log = [...Array.from({ length: 10 }, () => by("ada")), ...Array.from({ length: 10 }, () => by("bob", 60))];
    const run = await globalTest(globalPolicy, serviceConfig, log);
    expect(run).toMatchObject({ exitCode: 0, stderr: "" });
    await expect(run.stdout).toMatchFileSnapshot("testdata/limits-test-global.txt");
  });

  test("end their windows when the clock does, as the service's do", async () => {
    const log = [...Array.from({ length: 9 }, () => by("ada", 59)), ...Array.from({ length: 9 }, () => by("ada", 60))];
    expect(
      (await globalTest(globalPolicy.replace("requests: 12", "requests: 99"), serviceConfig, log)).stdout,
    ).toContain("18 requests in 1.0s: 16 allowed, 2 denied");
  });

  test("charge tokens at the end of the response; a used-up budget denies the next request", async () => {
    const cost = { model: "mock-1", totalTokens: 600 };
    const log = [
      by("ada", 10, { ...cost, durationMs: 8_000 }),
      by("ada", 11, cost),
      by("ada", 12, cost),
      by("bob", 13),
    ];
    const run = await globalTest(globalPolicy, serviceConfig, log);
    expect(run.stdout).toContain("3 allowed, 1 denied");
    expect(run.stdout).toMatch(/^default\/shared#global .* 3 +1 +1200 +2026-11-21T10:00:12.000Z$/m);
  });

  test("refund the local limits for requests that they deny", async () => {
    const log = [...Array.from({ length: 20 }, () => by("ada")), ...Array.from({ length: 4 }, () => by("bob"))];
    expect((await globalTest(globalPolicy, serviceConfig, log)).stdout).toContain(
      "24 requests in 0.0s: 12 allowed, 12 denied",
    );
  });

  test("count by their overrides without any file, and are left out where there is neither", async () => {
    const override = "limitOverride: { requestsPerUnit: 3, unit: Minute },";
    const overridden = globalPolicy
      .replace("- entries: [{ name: user", `- { ${override} entries: [{ name: user`)
      .replace(`'request.headers["x-user"]' }]`, `'request.headers["x-user"]' }] }`)
      .replace(/ +- \{ unit: Tokens.*\n/, "");
    const log = Array.from({ length: 5 }, () => by("ada"));
    expect((await globalTest(overridden, undefined, log)).stdout).toContain("3 allowed, 2 denied");
    const without = await globalTest(globalPolicy, undefined, log);
    expect(without.stdout).toContain("5 allowed, 0 denied");
    expect(without.stderr).toBe(
      'note: the global limit of default/shared is left out: name the limits of domain "chat" with --ratelimit-config\n',
    );
  });

  test("count requests that lack the value of an entry together", async () => {
    const byUser = globalPolicy.replace(/ +- \{ unit: Tokens.*\n/, "");
    const run = await globalTest(byUser, serviceConfig, [], "--rate", "10/m", "--tokens", "100");
    expect(run.stdout).toContain("8 allowed, 2 denied");
  });

  test("do not count requests to which no descriptor applies", async () => {
    const byUser = globalPolicy
      .replace(/ +- \{ unit: Tokens.*\n/, "")
      .replace(`["x-user"]' }`, `["x-user"]', ifAbsent: Skip }`);
    const run = await globalTest(byUser, serviceConfig, [], "--rate", "10/m", "--tokens", "100");
    expect(run.stdout).toMatch(/^default\/shared#global .* 0 +0 +<none> +<none>$/m);
    expect(run.stdout).toContain("10 allowed, 0 denied");
  });

  test("report the problems of the service's files", async () => {
    const run = await globalTest(globalPolicy, serviceConfig.replace("unit: minute", "unit: minuet"), [by("ada")]);
    expect(run).toMatchObject({ exitCode: 2, stdout: "" });
    expect(run.stderr).toMatch(/chat\.yaml:4:\d+ .*minuet/);
  });
});

describe("limits test with identities", () => {
  const secrets = `---
apiVersion: v1
kind: Secret
metadata: { name: acme, labels: { keys: customers, tier: gold } }
stringData: { apiKey: a-key-of-the-customer-acme }
---
apiVersion: v1
kind: Secret
metadata: { name: initech, labels: { keys: customers, tier: free } }
stringData: { apiKey: a-key-of-the-customer-initech }
`;
  const limited = (entry: string, authentication = "", target = "kind: HTTPRoute, name: chat") => `
apiVersion: gatewayproxy.dev/v1alpha1
kind: ProxyPolicy
metadata: { name: customers }
spec:
  targetRefs: [{ group: gateway.networking.k8s.io, ${target} }]
  traffic:
    ${authentication}
    rateLimit: { local: [${entry}] }
`;
  const times = (count: number, fields: Readonly<Record<string, unknown>>): readonly string[] =>
    Array.from({ length: count }, () => logLine(0, fields));

  test("gives each subject its own counter", async () => {
    const log = [...times(4, { identity: "jwt ada" }), ...times(2, { identity: "jwt bob, apiKey default/acme" })];
    expect(await replayed(limited("{ requests: 3, unit: Minutes, key: jwt.sub }"), log)).toMatchObject({
      allowed: 5,
      denied: 1,
    });
  });

  test("takes the labels of an API key from the Secrets of the manifests", async () => {
    const byTier = limited(`{ requests: 2, unit: Minutes, key: apiKey.name, limit: 'apiKey.tier == "gold" ? 4 : 1' }`);
    const log = ["acme", "initech", "other"].flatMap((name) => times(5, { identity: `apiKey default/${name}` }));
    expect(await replayed(byTier + secrets, log)).toMatchObject({ allowed: 4 + 1 + 2, denied: 1 + 4 + 3 });
  });

  test("takes claims that a log does not have from its lines, and names the missing ones", async () => {
    const byClaim = limited("{ requests: 1, unit: Minutes, key: jwt.sub, limit: 'int(jwt.rpm)' }");
    const log = times(5, { identity: "jwt ada", jwt: { rpm: 3 } });
    expect(await replayed(byClaim, log)).toMatchObject({ allowed: 3, denied: 2 });
    const run = await limitsTest(byClaim, times(2, { identity: "jwt ada" }));
    expect(run.stderr).toContain(
      "note: expressions read jwt.rpm, which these requests do not have: they have no value for them\n",
    );
    expect(run.stdout).toContain("1 allowed, 1 denied");
  });

  test("shows a policy of the Gateway only identities that the Gateway verifies, as the proxy does", async () => {
    const issuer = "authentication: { jwt: [{ issuer: 'https://a.example', jwks: { inline: '{\"keys\":[]}' } }] }";
    const entry = "{ requests: 1, unit: Minutes, key: jwt.sub }";
    const gateway = "kind: Gateway, name: web";
    const log = [...times(1, { identity: "jwt ada" }), ...times(1, { identity: "jwt bob" })];
    const ofRoute = `${limited(entry, issuer)}---${limited(entry, "", gateway).replace("name: customers", "name: ceiling")}`;
    // The entry of the Gateway sees no identity, so that all clients share its counter.
    expect(await replayed(ofRoute, log)).toMatchObject({ allowed: 1, denied: 1 });
    expect(await replayed(limited(entry, issuer, gateway), log)).toMatchObject({ allowed: 2, denied: 0 });
    // The policy that verifies may be in another file.
    expect(await replayed(limited(entry, "", gateway), log)).toMatchObject({ allowed: 2, denied: 0 });
  });

  test("leaves out requests that authentication rejected, since no limit counted them", async () => {
    const log = [...times(1, {}), ...times(3, { status: 401, reason: "Unauthenticated" })];
    const run = await limitsTest(limited("{ requests: 1, unit: Minutes }"), log);
    expect(run.stdout).toContain("1 requests in 0.0s: 1 allowed, 0 denied");
    expect(run.stderr).toBe("note: 3 requests had no valid credential, so no limit counted them; they were skipped\n");
  });

  test("gives synthetic requests an identity", async () => {
    const byClaim = limited("{ requests: 1, unit: Minutes, key: jwt.sub, limit: 'int(jwt.rpm)' }");
    const load = ["--rate", "10/m", "--identity", "jwt ada", "--claims", '{"rpm": 7}'];
    expect((await limitsTest(byClaim, [], ...load)).stdout).toContain("7 allowed, 3 denied");
    expect((await limitsTest(byClaim, [], "--rate", "1/m", "--identity", "ada")).exitCode).toBe(64);
    expect((await limitsTest(byClaim, [], "--rate", "1/m", "--claims", "[1]")).exitCode).toBe(64);
  });
});
