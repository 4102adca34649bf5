/** `/traffic` of a process with two workers, and the local reply of a rule without a usable backend, as in the dump. */
import { configDumpSchema } from "@gatewayproxy/admin-api/config-dump";
import { backendLocalReply, ruleLocalReply } from "@gatewayproxy/admin-api/local-reply";
import { trafficSchema } from "@gatewayproxy/admin-api/traffic";
import { expect, test, vi } from "vitest";
import { sendToAdmin, startAdminProxy } from "../../support/admin-proxy.ts";
import { startBackend } from "../../support/backend.ts";
import { policyManifest } from "../../support/gateway.ts";
import { localReplyRules } from "../../support/local-reply-rules.ts";

// Processes start slowly on a busy machine.
vi.setConfig({ testTimeout: 60_000 });

test("/traffic adds up the counts of all workers since the start", async () => {
  const limit = policyManifest("three", "kind: HTTPRoute, name: r", ["{ requests: 3, unit: Hours }"]);
  const { proxy, url } = await startAdminProxy((await startBackend()).port, [limit]);
  const send = async () => trafficSchema.parse(JSON.parse((await sendToAdmin(`${proxy.admin}/traffic`)).text));
  const before = await send();
  expect(before).toMatchObject({ requests: 0, statuses: [], routes: [] });

  // Each has its own connection, so that both workers get some.
  await Promise.all(Array.from({ length: 5 }, () => sendToAdmin(url)));
  await expect.poll(async () => (await send()).requests).toBe(5);
  const after = await send();
  expect(after).toMatchObject({
    startedAt: before.startedAt,
    requestsInProgress: 0,
    statuses: [
      { status: 200, requests: 3 },
      { status: 429, requests: 2 },
    ],
    reasons: [{ reason: "RateLimited", requests: 2 }],
    denials: [{ policy: "default/three", entry: 0, counts: "requests", denied: 2, shadowDenied: 0, notApplied: 0 }],
    routes: [{ route: "default/r", requests: 5, clientErrors: 2, serverErrors: 0, denied: 2, tokens: 0 }],
  });
  expect(after.uptimeSeconds).toBeGreaterThan(before.uptimeSeconds);
  expect(after.durations.requests.reduce((sum, count) => sum + count, 0)).toBe(5);
});

test("the dump shows the status of a rule's local reply", async () => {
  const { proxy, url } = await startAdminProxy(
    (await startBackend()).port,
    localReplyRules.map((rule) => rule.manifests),
  );
  const dump = configDumpSchema.parse(JSON.parse((await sendToAdmin(`${proxy.admin}/config_dump`)).text));
  for (const { name, status } of localReplyRules) {
    expect([name, (await sendToAdmin(`${url}/${name}`)).status]).toEqual([name, status]);
    const rule = dump.routes.find((route) => route.name === name)?.rules[0];
    const localReplies = rule?.backendRefs.map((ref) =>
      backendLocalReply(
        ref,
        dump.backends.find(({ key }) => key === ref.backend),
      ),
    );
    const statuses = [rule && ruleLocalReply(rule), ...(localReplies ?? [])].flatMap(
      (response) => response?.status ?? [],
    );
    expect([name, statuses]).toEqual([name, status === 302 ? [] : [status]]);
  }
});
