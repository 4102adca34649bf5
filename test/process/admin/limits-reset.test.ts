/** `POST /limits/reset` and `proxyctl limits reset`: what is reset, what is recorded, and who may do it. */
import { adminErrorSchema } from "@gatewayproxy/admin-api/error";
import { type LimitsReset, limitsResetSchema } from "@gatewayproxy/admin-api/limits";
import { describe, expect, test, vi } from "vitest";
import { proxyctl } from "../../../proxyctl/src/testing/run.ts";
import { sendToAdmin, startAdminProxy } from "../../support/admin-proxy.ts";
import { startBackend } from "../../support/backend.ts";

// Processes start slowly on a busy machine.
vi.setConfig({ testTimeout: 90_000 });

const policy = `
apiVersion: gatewayproxy.dev/v1alpha1
kind: ProxyPolicy
metadata: { name: budget, namespace: default }
spec:
  targetRefs: [{ group: gateway.networking.k8s.io, kind: HTTPRoute, name: r }]
  traffic:
    rateLimit:
      local:
        - { name: per-user, requests: 2, unit: Hours, key: 'request.headers["x-user"]' }
        - { name: per-key, requests: 3, unit: Hours, key: 'request.headers["x-api-key"]' }
        - { requests: 100, unit: Days, window: Calendar }
        - { name: at-once, concurrent: 50 }
`;

async function start(args: readonly string[] = []) {
  const backend = await startBackend();
  const { proxy, url } = await startAdminProxy(backend.port, [policy], args);
  const send = async (user: string, apiKey = "sk-secret-0123456789abcdef"): Promise<number> => {
    const response = await fetch(url, { headers: { "x-user": user, "x-api-key": apiKey } });
    await response.text();
    return response.status;
  };
  const reset = async (query: string): Promise<LimitsReset> =>
    limitsResetSchema.parse(
      JSON.parse((await sendToAdmin(`${proxy.admin}/limits/reset?${query}`, { method: "POST" })).text),
    );
  return { proxy, send, reset, address: proxy.admin.slice("http://".length) };
}

test("a reset restores the budget of one value, one entry, or all entries, and is recorded", async () => {
  const { proxy, send, reset } = await start();
  for (const user of ["ada", "ada", "ben"]) expect(await send(user)).toBe(200);
  expect(await send("ada")).toBe(429);

  expect(await reset("policy=default/budget&entry=per-user&key=ada")).toMatchObject({
    policy: "default/budget",
    key: { text: "ada", isSecret: false },
    counters: 1,
    entries: [{ entry: 0, name: "per-user", target: "HTTPRoute/default/r", source: "local", counters: 1 }],
    leftOut: [],
  });
  const line = await proxy.logged(({ msg }) => msg === "an operator has reset counters");
  expect(line).toMatchObject({
    level: "info",
    module: "proxy::admin",
    source: "127.0.0.1",
    policy: "default/budget",
    entry: "per-user",
    key: "ada",
    counters: 1,
  });
  // The key of three requests is used up by now.
  expect(await send("ada")).toBe(429);
  expect((await reset("policy=budget&entry=1")).counters).toBe(1);
  expect(await send("ada")).toBe(200);

  const all = await reset("policy=default/budget");
  expect(all.counters).toBe(4);
  expect(all.entries.map(({ entry, counters }) => [entry, counters])).toEqual([
    [0, 2],
    [1, 1],
    [2, 1],
  ]);
  expect(all.leftOut).toMatchObject([{ entry: 3, name: "at-once" }]);
  expect((await reset("policy=default/budget")).counters).toBe(0);
  expect(await send("ada")).toBe(200);
  const metrics = await (await fetch(`${proxy.stats}/metrics`)).text();
  expect(metrics).toMatch(/^gateway_proxy_limit_counters_reset_total 6$/m);
});

test("a secret key is found by its value and by its fingerprint, and is in no log line and no response", async () => {
  const { proxy, send, address } = await start(["--log-level", "debug"]);
  const secret = "sk-secret-0123456789abcdef";
  for (let sent = 0; sent < 3; sent++) await send(`user ${sent}`);
  expect(await send("eve")).toBe(429);
  const run = async (key: string) =>
    proxyctl(["limits", "reset", "default/budget", "--entry", "per-key", "--key", key, "--address", address]);
  const byValue = await run(secret);
  expect(byValue).toMatchObject({ exitCode: 0, stderr: "" });
  const fingerprint = /sha256:[0-9a-f]{8}…cdef/.exec(byValue.stdout)?.[0] ?? "";
  expect(byValue.stdout).toBe(
    "POLICY                   LIST    TARGET                KEY                    RESET\n" +
      `default/budget#per-key   local   HTTPRoute/default/r   ${fingerprint}       1\n`,
  );
  for (let sent = 0; sent < 3; sent++) expect(await send(`user ${sent}`)).toBe(200);
  expect(await send("eve")).toBe(429);
  const byFingerprint = await run(fingerprint);
  expect(byFingerprint.stdout).toBe(byValue.stdout);
  expect(await send("frank")).toBe(200);
  expect(byValue.stdout + proxy.log.map((line) => JSON.stringify(line)).join("")).not.toContain(secret);
});

describe("a reset is rejected", () => {
  test("for names that the configuration does not have, with those that it has", async () => {
    const { proxy, send, address } = await start();
    for (let sent = 0; sent < 2; sent++) await send("ada");
    for (const [query, error, hint] of [
      ["", "without a policy", "policy=NAMESPACE/NAME is required"],
      ["policy=", "without a policy", "policy=NAMESPACE/NAME is required"],
      ["policy=nope", 'policy "nope": no such policy limits a route', "accepted: default/budget"],
      ["policy=team/budget", "no such policy limits a route", "accepted: default/budget"],
      ["policy=budget&entry=4", 'entry "4": the policy has no such entry', "accepted: per-user, per-key, 2, at-once"],
      ["policy=budget&entry=at-once", "only requests in progress are counted", "counted until it ends"],
      ["policy=budget&entry=2&key=ada", "no selected entry has a key", "without a key"],
      ["policy=budget&user=ada", 'parameter "user" is not known', "key=VALUE"],
      ["policy=budget&key=a&key=b", 'parameter "key" is given twice', "key=VALUE"],
    ] as const) {
      const response = await sendToAdmin(`${proxy.admin}/limits/reset?${query}`, { method: "POST" });
      const found = adminErrorSchema.parse(JSON.parse(response.text));
      expect([query, response.status]).toEqual([query, 400]);
      expect(found.error).toContain(error);
      expect(found.hint).toContain(hint);
    }
    const run = await proxyctl(["limits", "reset", "nope", "--address", address]);
    expect(run).toMatchObject({ exitCode: 64, stdout: "" });
    expect(run.stderr).toContain('reset the counters of policy "nope": no such policy limits a route');
    expect(run.stderr).toContain("accepted: default/budget");
    expect(await send("ada")).toBe(429);
    expect(proxy.log.some(({ msg }) => msg === "an operator has reset counters")).toBe(false);
  });

  test("for any method but POST, and for pages of other sites", async () => {
    const { proxy, send } = await start();
    for (let sent = 0; sent < 2; sent++) await send("ada");
    const url = `${proxy.admin}/limits/reset?policy=default/budget`;
    for (const method of ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"]) {
      const response = await sendToAdmin(url, { method });
      expect([method, response.status, response.headers["allow"]]).toEqual([method, 405, "POST"]);
    }
    for (const headers of [
      { origin: "https://evil.example" },
      { "sec-fetch-site": "cross-site" },
      { host: "rebound.example" },
    ]) {
      expect((await sendToAdmin(url, { method: "POST", headers })).status).toBe(403);
    }
    expect(await send("ada")).toBe(429);
    expect((await sendToAdmin(url, { method: "POST" })).status).toBe(200);
    expect(await send("ada")).toBe(200);
  });
});
