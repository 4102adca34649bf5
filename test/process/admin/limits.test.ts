/** `/limits` and `/limits/decisions` of global limits, and the reports of `proxyctl` on them. */
import { status } from "@grpc/grpc-js";
import { decisionsSchema } from "@gatewayproxy/admin-api/decisions";
import { type Limits, limitsSchema } from "@gatewayproxy/admin-api/limits";
import { expect, test, vi } from "vitest";
import { proxyctl } from "../../../proxyctl/src/testing/run.ts";
import { sendToAdmin } from "../../support/admin-proxy.ts";
import { respondWith, startBackend } from "../../support/backend.ts";
import { backendManifest, backendRef, gatewayManifest, manifests, routeManifest } from "../../support/gateway.ts";
import { freePort } from "../../support/free-port.ts";
import { startProxy } from "../../support/proxy-process.ts";
import { type ScriptedResponse, startScriptedService } from "../../support/rate-limit-service.ts";

// Processes start slowly on a busy machine.
vi.setConfig({ testTimeout: 90_000 });

const away: ScriptedResponse = { code: status.UNAVAILABLE, details: "away" };

/** Two a minute, of which one or none remains. */
function limited(code: "OK" | "OVER_LIMIT"): ScriptedResponse {
  const currentLimit = { requestsPerUnit: 2, unit: "MINUTE" } as const;
  return { overallCode: code, statuses: [{ code, currentLimit, durationUntilReset: { seconds: 50 } }] };
}

/** A route on `/NAME` under a global limit of the domain NAME; `fields` adds to it. */
function limitedRoute(name: string, servicePort: number, fields = ""): readonly string[] {
  const route = routeManifest(name, [
    `{ matches: [{ path: { value: /${name} } }], backendRefs: [${backendRef("app")}] }`,
  ]);
  const policy = `
apiVersion: gatewayproxy.dev/v1alpha1
kind: ProxyPolicy
metadata: { name: ${name}, namespace: default }
spec:
  targetRefs: [{ group: gateway.networking.k8s.io, kind: HTTPRoute, name: ${name} }]
  traffic:
    rateLimit:
      global:
        domain: ${name}
        address: 127.0.0.1:${servicePort}
        timeout: 5s
        descriptors: [{ entries: [{ name: user, expression: 'request.headers["x-user"]' }] }]
        ${fields}
`;
  return [route, policy];
}

test("global denials are explained by the source of the decision; services and learned limits are shown", async () => {
  const backend = await startBackend(respondWith(200));
  let isAway = false;
  const service = await startScriptedService(({ request: { domain } }) => {
    if (domain === "fallback" || domain === "closed" || isAway) return away;
    return limited(domain === "service" ? "OVER_LIMIT" : "OK");
  });
  const port = await freePort();
  const all = manifests(
    gatewayManifest(port),
    backendManifest("app", backend.port),
    ...limitedRoute("service", service.port),
    ...limitedRoute("learned", service.port),
    ...limitedRoute("fallback", service.port, "fallback: [{ requests: 1, unit: Hours }]"),
    ...limitedRoute("closed", service.port, "failureMode: Closed"),
  );
  const proxy = await startProxy({ "all.yaml": all }, ["--workers", "1"]);
  const send = async (name: string): Promise<readonly [status: number, id: string]> => {
    const response = await fetch(`http://127.0.0.1:${port}/${name}`, { headers: { "x-user": "ada" } });
    await response.text();
    return [response.status, response.headers.get("x-request-id") ?? ""];
  };
  const denied = async (name: string): Promise<string> => {
    const [code, id] = await send(name);
    expect([name, code]).toEqual([name, name === "closed" ? 503 : 429]);
    return id;
  };
  const limits = async (): Promise<Limits> =>
    limitsSchema.parse(JSON.parse((await sendToAdmin(`${proxy.admin}/limits`)).text));
  const address = proxy.admin.slice("http://".length);

  const [byService, byCache] = [await denied("service"), await denied("service")];
  expect((await send("learned"))[0]).toBe(200);
  const known = await limits();
  expect(known.learned).toHaveLength(2);
  expect(known.learned).toContainEqual({
    policy: "default/learned",
    target: "HTTPRoute/default/learned",
    service: `address/127.0.0.1:${service.port}`,
    descriptor: [{ key: "user", value: { text: "ada", isSecret: false } }],
    counts: "requests",
    limit: 2,
    windowSeconds: 60,
  });
  expect(known.services).toMatchObject([{ breaker: "closed", denialsCached: 1, limitsLearned: 2 }]);
  expect(known.services[0]).not.toHaveProperty("lastError");

  expect((await send("fallback"))[0]).toBe(200);
  const byFallback = await denied("fallback");
  const byFailureMode = await denied("closed");
  isAway = true;
  for (let sent = 0; sent < 2; sent++) expect((await send("learned"))[0]).toBe(200);
  const byLearned = await denied("learned");
  const [state] = (await limits()).services;
  expect(state).toMatchObject({
    breaker: "open",
    openOn: 1,
    workers: 1,
    lastError: { message: "gRPC status 14: away" },
  });
  expect(Date.parse(state?.since ?? "")).toBeGreaterThan(Date.parse(known.services[0]?.since ?? ""));
  const top = await proxyctl(["limits", "top", "--address", address]);
  expect(top.stdout).toMatch(
    /^address\/127\.0\.0\.1:\d+ +open \(1 of 1 workers\) +\S+Z +0 +1 +2 +gRPC status 14: away, at /m,
  );

  const explanations = [
    [byService, "service", "the rate limit service"],
    [byCache, "cache", "an earlier response of the service that is still valid"],
    [byFallback, "fallback", "the policy's fallback, while the service is unavailable"],
    [byLearned, "learned", "the limit that the service reported last, while it is unavailable"],
    [byFailureMode, "failureMode", "failureMode Closed, since the service failed"],
  ] as const;
  for (const [id, by, words] of explanations) {
    const response = await sendToAdmin(`${proxy.admin}/limits/decisions?id=${id}`);
    expect(decisionsSchema.parse(JSON.parse(response.text)).decisions).toMatchObject([{ kind: "global", by }]);
    const { exitCode, stdout } = await proxyctl(["limits", "explain", id, "--address", address]);
    expect([by, exitCode]).toEqual([by, 0]);
    expect(stdout).toContain(`decided by   ${words}\n`);
    expect(stdout).toMatch(/^descriptor +user=ada/m);
  }
});

test("a descriptor that does not apply is named with its reason in the trace, the log and the explanation", async () => {
  const backend = await startBackend(respondWith(200));
  const service = await startScriptedService(() => limited("OVER_LIMIT"));
  const port = await freePort();
  const condition = 'request.headers["x-tier"] == "free"';
  const [route = "", policy = ""] = limitedRoute("tiers", service.port);
  const descriptors = `
        - entries: [{ name: user, expression: 'request.headers["x-user"]' }]
          limitOverride: { requestsPerUnit: 'int(request.headers["x-rpm"])', unit: Minute }
        - { entries: [{ name: tier, expression: '"free"' }], when: '${condition}' }
        - { entries: [{ name: team, expression: 'request.headers["x-team"]', ifAbsent: Skip }] }`;
  const all = manifests(
    gatewayManifest(port),
    backendManifest("app", backend.port),
    route,
    policy.replace(/descriptors: .*/, `descriptors:${descriptors}`),
  );
  const proxy = await startProxy({ "all.yaml": all }, ["--workers", "1", "--log-level", "info,proxy::ratelimit=debug"]);
  const address = proxy.admin.slice("http://".length);
  const headers = ["-H", "x-user: ada", "-H", "x-tier: gold", "-H", "x-rpm: 12"];
  const request = ["--port", String(port), "--", ...headers, "http://127.0.0.1/tiers"];
  const traced = await proxyctl(["trace", "--address", address, ...request]);
  const why = `descriptors[1], since its condition is false: ${condition}`;
  expect(traced.stdout).toContain(`by service, without ${why}`);
  expect(traced.stdout).toContain("without descriptors[2], since the request lacks a value with ifAbsent: Skip");

  const { decisions } = decisionsSchema.parse(JSON.parse((await sendToAdmin(`${proxy.admin}/limits/decisions`)).text));
  const notApplied = [
    { descriptor: 1, because: "when", when: condition },
    { descriptor: 2, because: "ifAbsent" },
  ];
  expect(decisions).toMatchObject([
    { kind: "global", descriptors: [{ override: { requestsPerUnit: 12, unit: "Minute" } }], notApplied },
  ]);
  const id = decisions[0]?.kind === "global" ? decisions[0].requestId : "";
  const { stdout } = await proxyctl(["limits", "explain", id, "--address", address]);
  expect(stdout).toMatch(/^descriptor +user=ada \(limitOverride 12 per Minute\) OVER_LIMIT/m);
  expect(stdout).toMatch(/^not applied +descriptors\[1\], since its condition is false: /m);
  expect(await proxy.logged(({ msg }) => msg === "limit denied")).toMatchObject({ notApplied });
});
