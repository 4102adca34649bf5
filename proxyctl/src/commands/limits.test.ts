import { describe, expect, test } from "vitest";
import { startAdmin } from "../testing/admin.ts";
import { absentService, shadowCounter } from "../testing/limits.ts";
import { proxyctl } from "../testing/run.ts";

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
    shadowCounter("ada\u001b[2J"),
  ],
  countersLeftOut: 0,
  services: [
    absentService,
    {
      // As in the response of a proxy that does not count failures yet.
      service: "Service/default/spare:8081",
      breaker: "closed",
      openOn: 0,
      workers: 2,
      since: "2026-11-21T09:00:00.000Z",
      chargesBuffered: 0,
      denialsCached: 0,
      limitsLearned: 0,
    },
    {
      service: "Service/default/strict:8081",
      breaker: "closed",
      openOn: 0,
      workers: 2,
      since: "2026-11-21T09:00:00.000Z",
      lastError: { message: "unknown domain", at: "2026-11-21T09:59:58.000Z" },
      failuresInARow: 3,
      chargesBuffered: 0,
      denialsCached: 0,
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

  test("shows how many counters are left out", async () => {
    const admin = await startAdmin({ "GET /limits": { ...limits, services: [], countersLeftOut: 1_537 } });
    const { stdout } = await proxyctl(["limits", "top", "--address", admin.address]);
    expect(stdout.split("\n").slice(-2)).toEqual(["1537 more have more remaining", ""]);
  });

  test("shows what requests in progress hold, if they hold anything", async () => {
    const [first, ...others] = limits.counters;
    const counters = [{ ...first, held: 2 }, ...others];
    const admin = await startAdmin({ "GET /limits": { ...limits, services: [], counters } });
    const { stdout } = await proxyctl(["limits", "top", "--address", admin.address]);
    const [head = "", ...lines] = stdout.split("\n");
    expect(head.split(/ {2,}/).slice(-5)).toEqual(["LIMIT", "USED", "HELD", "REMAINING", "RESET"]);
    const row = lines.find((line) => line.startsWith("default/chat-limits#0"));
    expect(row?.split(/ {2,}/).slice(-5)).toEqual(["15", "3", "2", "12", "41s"]);
  });

  test("says so when nothing counts", async () => {
    const admin = await startAdmin({ "GET /limits": { ...limits, counters: [], services: [] } });
    const { stdout } = await proxyctl(["limits", "top", "--address", admin.address]);
    expect(stdout).toBe("No window of a limit is open.\n");
  });
});

const denial = {
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
    ["local", { kind: "local", ...denial, counter }],
    [
      "global",
      {
        kind: "global",
        ...denial,
        by: "service",
        service: "Service/default/ratelimit:8081",
        domain: "chat",
        descriptors: [
          {
            entries: [{ key: "user", value: { text: "ada", isSecret: false } }],
            override: { requestsPerUnit: 10, unit: "Minute" },
            code: "OVER_LIMIT",
            limit: 10,
            windowSeconds: 60,
            remaining: 0,
            resetSeconds: 12,
          },
        ],
        notApplied: [
          { descriptor: 1, because: "when", when: 'request.headers["x-tier"] == "free"' },
          { descriptor: 2, because: "ifAbsent" },
        ],
      },
    ],
  ])("explains a denial, and what would allow the next request: %s", async (name, decision) => {
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

  test.each([
    ["connection", { protocol: "TLS", serverName: "db.example.com" }],
    ["session", { protocol: "UDP" }],
  ])("explains the denial of a %s, by the address of its client", async (name, fields) => {
    const { at, worker, rule, policy, target, remedies } = denial;
    const connections = { ...counter, counts: "connections", unit: undefined };
    const decision = {
      ...{
        kind: "connection",
        at,
        worker,
        rule,
        policy,
        target,
        remedies,
        source: "192.0.2.7",
        listener: "default/web/db",
      },
      ...fields,
      counter: connections,
    };
    const admin = await startAdmin({
      "GET /limits/decisions": { decisions: [decision], remembered: 1, capacity: 2048 },
    });
    const { exitCode, stdout } = await proxyctl(["limits", "explain", "192.0.2.7", "--address", admin.address]);
    expect(exitCode).toBe(0);
    expect(admin.requests).toEqual(["GET /limits/decisions?source=192.0.2.7"]);
    await expect(stdout.replaceAll(String(admin.port), "PORT")).toMatchFileSnapshot(
      `testdata/limits-explain-${name}.txt`,
    );
  });

  test("exits with 1 for the address of a client that was denied nothing", async () => {
    const admin = await startAdmin({ "GET /limits/decisions": { decisions: [], remembered: 7, capacity: 2048 } });
    const { exitCode, stderr } = await proxyctl(["limits", "explain", "2001:db8::1", "--address", admin.address]);
    expect(exitCode).toBe(1);
    expect(stderr).toContain('explain the client "2001:db8::1": no denial of this address is kept (7 are');
  });

  test("exits with 1 for an id that is not, or no longer, known", async () => {
    const admin = await startAdmin({ "GET /limits/decisions": { decisions: [], remembered: 7, capacity: 1024 } });
    const { exitCode, stderr } = await proxyctl(["limits", "explain", "unknown", "--address", admin.address]);
    expect(exitCode).toBe(1);
    await expect(stderr.replaceAll(String(admin.port), "PORT")).toMatchFileSnapshot(
      "testdata/limits-explain-unknown.txt",
    );
  });
});

describe("limits reset", () => {
  const entry = { entry: 0, name: "per-user", target: "HTTPRoute/default/chat", source: "local", bucket: "team" };
  const result = {
    at: "2026-11-21T10:00:00.000Z",
    policy: "default/chat-limits",
    key: { text: "ada", isSecret: false },
    counters: 1,
    entries: [{ ...entry, counters: 1 }],
    leftOut: [{ entry: 1, target: "HTTPRoute/default/chat", source: "local" }],
  };

  test("sends the names as they are typed, by POST, and prints what was reset", async () => {
    const admin = await startAdmin({ "POST /limits/reset": result });
    const argv = ["limits", "reset", "default/chat-limits", "--entry", "per-user", "--key", "a&b=ä ", "--address"];
    const run = await proxyctl([...argv, admin.address]);
    expect(run).toMatchObject({ exitCode: 0, stderr: "" });
    expect(admin.requests).toEqual([
      "POST /limits/reset?policy=default%2Fchat-limits&entry=per-user&key=a%26b%3D%C3%A4+",
    ]);
    await expect(run.stdout).toMatchFileSnapshot("testdata/limits-reset.txt");
  });

  test("prints the response as JSON", async () => {
    const admin = await startAdmin({ "POST /limits/reset": result });
    const run = await proxyctl(["limits", "reset", "chat-limits", "-o", "json", "--address", admin.address]);
    expect(JSON.parse(run.stdout)).toEqual(result);
    expect(admin.requests).toEqual(["POST /limits/reset?policy=chat-limits"]);
  });

  test("shows the names that the proxy knows, and exits with 64 for others", async () => {
    const body = { error: 'reset the counters of policy "p": no such policy limits a route', hint: "accepted: a/b" };
    const admin = await startAdmin({
      "POST /limits/reset": (_, response) => void response.writeHead(400).end(JSON.stringify(body)),
    });
    const run = await proxyctl(["limits", "reset", "p", "--address", admin.address]);
    expect(run).toMatchObject({ exitCode: 64, stdout: "" });
    expect(run.stderr).toBe(
      `error: request /limits/reset from ${admin.address}: ${body.error}\n` +
        "  accepted: a/b\n  see the policies and their entries: proxyctl config policies\n",
    );
  });
});
