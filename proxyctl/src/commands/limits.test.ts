import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { startAdmin } from "../testing/admin.ts";
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
  readonly admitted: number;
  readonly denied: number;
  readonly entries: readonly { readonly entry: number; readonly admitted: number; readonly denied: number }[];
}

async function replayed(manifests: string, log: readonly string[], ...args: string[]): Promise<ReplayData> {
  const { stdout } = await limitsTest(manifests, log, "-o", "json", ...args);
  return JSON.parse(stdout) as ReplayData;
}

describe("limits test", () => {
  test("prints what each entry would have admitted and denied", async () => {
    const run = await limitsTest(policy, [], "--rate", "20/m", "--duration", "2m", "--tokens", "10");
    expect(run).toMatchObject({ exitCode: 0, stderr: "" });
    await expect(run.stdout).toMatchFileSnapshot("testdata/limits-test.txt");
  });

  test("exits with 1 with --fail-on-deny when anything would have been denied, and only then", async () => {
    const run = async (rate: string) => (await limitsTest(policy, [], "--rate", rate, "--fail-on-deny")).exitCode;
    expect(await run("15/m")).toBe(0);
    expect(await run("16/m")).toBe(1);
  });

  test("takes the time from the log: what a window gives back is admitted again", async () => {
    const burst = Array.from({ length: 20 }, () => logLine(0));
    const later = Array.from({ length: 20 }, () => logLine(60));
    expect(await replayed(policy, burst)).toMatchObject({ admitted: 15, denied: 5 });
    expect(await replayed(policy, [...burst, ...later])).toMatchObject({ admitted: 25, denied: 15 });
  });

  test("charges tokens when the answer ended, not when it began", async () => {
    const long = logLine(30, { durationMs: 30_000, totalTokens: 1200 });
    const log = [long, logLine(10), logLine(40)];
    expect(await replayed(policy, log)).toMatchObject({
      entries: [
        { entry: 0, admitted: 2, denied: 0 },
        { entry: 1, admitted: 2, denied: 1 },
      ],
    });
  });

  test("takes a request of less than a millisecond to begin after the one that its client waited for", async () => {
    const first = logLine(0, { time: "2026-11-21T10:00:00.718Z", durationMs: 20.25, totalTokens: 1200 });
    const next = logLine(0, { time: "2026-11-21T10:00:00.718Z", durationMs: 0.4 });
    const later = logLine(0, { time: "2026-11-21T10:00:00.719Z", durationMs: 1.4 });
    expect(await replayed(policy, [first, next, later])).toMatchObject({ admitted: 1, denied: 2 });
  });

  test("takes a request that was refused when it was logged to cost what the others did", async () => {
    const log = [logLine(0, { totalTokens: 600 }), logLine(1, { status: 429 }), logLine(2)];
    const run = await limitsTest(policy, log);
    expect(run.stdout).toContain("2 admitted, 1 denied");
    expect(run.stderr).toBe(
      "note: 1 requests had been refused when they were logged; they cost what the others did on average\n",
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
    expect(await run("/v1/chat")).toContain("15 admitted, 45 denied\n");
    expect(await run("/other")).toContain("0 admitted, 0 denied, 60 that no rule serves\n");
  });

  test("gives each value of a key its own counter, from the headers of the log", async () => {
    const keyed = policy.replace("burst: 5", `key: 'request.headers["x-user"]'`);
    const log = Array.from({ length: 24 }, (_, at) =>
      logLine(0, { headers: { "X-User": at % 2 === 0 ? "ada" : "bob" } }),
    );
    expect(await replayed(keyed, log)).toMatchObject({ admitted: 20, denied: 4 });
    const bare = await limitsTest(keyed, [logLine(0)]);
    expect(bare.stderr).toContain("note: a key reads request.headers, which an access log does not have");
  });

  test("skips lines that are no requests, and says so", async () => {
    const run = await limitsTest(policy, ['{"msg":"ready"}', "garbage", logLine(0)]);
    expect(run.stdout).toContain("1 requests in 0.0s: 1 admitted, 0 denied\n");
    expect(run.stderr).toMatch(/^note: 2 lines of .* are no requests and were skipped\n$/);
  });

  test("tells what is wrong with the manifests", async () => {
    const run = await limitsTest(policy.replace("Minutes, burst", "Minute, burst"), [logLine(0)]);
    expect(run).toMatchObject({ exitCode: 2, stdout: "" });
    expect(run.stderr).toContain(`policy.yaml:11:33 ProxyPolicy default/chat-limits`);
    expect((await proxyctl(["limits", "test", "-f", "-"], { input: policy })).exitCode).toBe(64);
  });
});

const limits = {
  at: "2026-11-21T10:00:00.000Z",
  counters: [
    {
      policy: "default/chat-limits",
      entry: 0,
      target: "HTTPRoute/default/chat",
      source: "local",
      counts: "requests",
      unit: "Minutes",
      mode: "Enforce",
      limit: 15,
      used: 3,
      remaining: 12,
      resetSeconds: 41,
    },
    {
      policy: "default/chat-limits",
      entry: 1,
      target: "HTTPRoute/default/chat",
      source: "local",
      counts: "tokens",
      unit: "Hours",
      mode: "Shadow",
      key: { text: "ada\u001b[2J", isSecret: false },
      limit: 1000,
      used: 1200,
      remaining: 0,
      resetSeconds: 1800,
    },
  ],
  countersLeftOut: 0,
  services: [
    {
      service: "Service/default/ratelimit:8081",
      breaker: "open",
      openOn: 1,
      workers: 2,
      since: "2026-11-21T09:58:12.402Z",
      cause: "connect ECONNREFUSED",
      lastError: { message: "connect ECONNREFUSED", at: "2026-11-21T09:59:59.730Z" },
      chargesBuffered: 4,
      refusalsRemembered: 12,
      limitsLearned: 3,
    },
    {
      service: "Service/default/spare:8081",
      breaker: "closed",
      openOn: 0,
      workers: 2,
      since: "2026-11-21T09:00:00.000Z",
      chargesBuffered: 0,
      refusalsRemembered: 0,
      limitsLearned: 0,
    },
  ],
  learned: [],
};

describe("limits top", () => {
  test("prints the counters, those nearest to their limit first, and the services", async () => {
    const admin = await startAdmin({ "GET /limits": limits });
    const run = await proxyctl(["limits", "top", "--address", admin.address]);
    expect(run).toMatchObject({ exitCode: 0, stderr: "" });
    await expect(run.stdout).toMatchFileSnapshot("testdata/limits-top.txt");
  });

  test("says so when nothing counts", async () => {
    const admin = await startAdmin({ "GET /limits": { ...limits, counters: [], services: [] } });
    const { stdout } = await proxyctl(["limits", "top", "--address", admin.address]);
    expect(stdout).toBe("No limit has counted anything in a window that is open.\n");
  });
});

const refusal = {
  requestId: "r-1",
  at: "2026-11-21T10:00:05.000Z",
  worker: 1,
  method: "POST",
  authority: "chat.example.com",
  path: "/v1/chat/completions",
  rule: "default/chat/0",
  policy: "default/chat-limits",
  target: "HTTPRoute/default/chat",
  remedies: ["the window ends at 10:01:00", "raise requests of default/chat-limits#0"],
};
const counter = {
  entry: 0,
  counts: "requests",
  unit: "Minutes",
  key: { text: "sha256:0a1b2c3d…f00d", isSecret: true },
  used: 15,
  limit: 15,
  windowStart: "2026-11-21T10:00:00.000Z",
  windowEnd: "2026-11-21T10:01:00.000Z",
};

describe("limits explain", () => {
  test.each([
    ["local", { kind: "local", ...refusal, counter }],
    [
      "global",
      {
        kind: "global",
        ...refusal,
        by: "service",
        service: "Service/default/ratelimit:8081",
        domain: "chat",
        descriptors: [
          {
            entries: [{ key: "user", value: { text: "ada", isSecret: false } }],
            code: "OVER_LIMIT",
            limit: 10,
            windowSeconds: 60,
            remaining: 0,
            resetSeconds: 12,
          },
        ],
      },
    ],
  ])("says what refused, and what lets the next request pass: %s", async (name, decision) => {
    const admin = await startAdmin({
      "GET /limits/decisions": { decisions: [decision], remembered: 1, capacity: 1024 },
    });
    const { exitCode, stdout } = await proxyctl(["limits", "explain", "r-1", "--address", admin.address]);
    expect(exitCode).toBe(0);
    expect(admin.requests).toEqual(["GET /limits/decisions?id=r-1"]);
    await expect(stdout.replaceAll(String(admin.port), "PORT")).toMatchFileSnapshot(
      `testdata/limits-explain-${name}.txt`,
    );
  });

  test("exits with 1 for an id that is not, or no longer, known", async () => {
    const admin = await startAdmin({ "GET /limits/decisions": { decisions: [], remembered: 7, capacity: 1024 } });
    const { exitCode, stderr } = await proxyctl(["limits", "explain", "nobody", "--address", admin.address]);
    expect(exitCode).toBe(1);
    await expect(stderr.replaceAll(String(admin.port), "PORT")).toMatchFileSnapshot(
      "testdata/limits-explain-unknown.txt",
    );
  });
});
