/** The log of a request at each level, after a change of the filter at the admin server. */
import { expect, test, vi } from "vitest";
import { startBackend } from "../support/backend.ts";
import { backendManifest, backendRef, gatewayManifest, manifests, routeManifest } from "../support/gateway.ts";
import { freePort } from "../support/free-port.ts";
import { type LogLine, type ProxyProcess, startProxy } from "../support/proxy-process.ts";
import { startScriptedService } from "../support/rate-limit-service.ts";

// Processes start slowly on a busy machine.
vi.setConfig({ testTimeout: 90_000 });

interface Fixture {
  readonly proxy: ProxyProcess;
  /** Of the listener. */
  readonly url: string;
  readonly endpoint: string;
  readonly service: string;
}

/** A route `chat` under a local and a global limit, and two other routes. */
async function startChat(): Promise<Fixture> {
  const [backend, port] = [await startBackend(), await freePort()];
  const service = await startScriptedService(() => ({
    overallCode: "OK",
    statuses: [
      {
        code: "OK",
        currentLimit: { requestsPerUnit: 10, unit: "MINUTE" },
        limitRemaining: 7,
        durationUntilReset: { seconds: 42 },
      },
    ],
  }));
  const policy = `
apiVersion: gatewayproxy.dev/v1alpha1
kind: ProxyPolicy
metadata: { name: chat, namespace: default }
spec:
  targetRefs: [{ group: gateway.networking.k8s.io, kind: HTTPRoute, name: chat }]
  traffic:
    rateLimit:
      local: [{ requests: 5, unit: Hours, key: 'request.headers["x-user"]' }]
      global:
        domain: chat
        address: '127.0.0.1:${service.port}'
        timeout: 5s
        descriptors:
          - entries: [{ name: plan, expression: 'request.headers["x-plan"]' }, { name: api_key, expression: 'request.headers["x-api-key"]' }]
`;
  const refs = `backendRefs: [${backendRef("llm")}]`;
  const text = manifests(
    gatewayManifest(port),
    backendManifest("llm", backend.port),
    routeManifest("chat", [`{ matches: [{ path: { type: PathPrefix, value: /v1 } }], ${refs} }`]),
    routeManifest("images", [`{ matches: [{ path: { type: PathPrefix, value: /images } }], ${refs} }`]),
    routeManifest("posts", [`{ matches: [{ path: { type: PathPrefix, value: /v1/chat }, method: POST }], ${refs} }`]),
    policy,
  );
  const proxy = await startProxy({ "all.yaml": text }, ["--workers", "1"]);
  const url = `http://127.0.0.1:${port}`;
  return { proxy, url, endpoint: `127.0.0.1:${backend.port}`, service: `127.0.0.1:${service.port}` };
}

async function setLevel({ proxy }: Fixture, level: string): Promise<void> {
  const { status } = await fetch(`${proxy.admin}/logging?level=${encodeURIComponent(level)}`, { method: "POST" });
  expect(status).toBe(200);
}

const secrets = { authorization: "Bearer canary-1", "x-api-key": "canary-2-0123456789", cookie: "a=canary-3" };

/** Makes one request with this id, and resolves with the lines about it. */
async function requestLines({ proxy, url }: Fixture, id: string): Promise<readonly LogLine[]> {
  const headers = { "x-request-id": id, "x-user": "ann", "x-plan": "free", ...secrets };
  await (await fetch(`${url}/v1/chat?token=canary-4`, { headers })).text();
  // The last line of a request.
  await proxy.logged(({ msg, requestId }) => requestId === id && msg === "request");
  return proxy.log.filter(({ requestId }) => requestId === id);
}

function lineOf(lines: readonly LogLine[], msg: string): LogLine | undefined {
  return lines.find((line) => line["msg"] === msg);
}

test("at debug the log of a request has its rule, limits, endpoint and end", async () => {
  const fixture = await startChat();
  await setLevel(fixture, "debug");
  const lines = await requestLines(fixture, "r-debug");
  expect(lines.map(({ module, level, msg }) => `${String(module)} ${String(level)} ${String(msg)}`)).toEqual([
    "proxy::access debug request received",
    "proxy::routing debug route matched",
    "proxy::routing debug other rules do not match",
    "proxy::ratelimit debug limits apply",
    "proxy::ratelimit debug limit allowed",
    "proxy::ratelimit debug rate limit service responded",
    "proxy::ratelimit debug limit allowed",
    "proxy::upstream debug endpoint picked",
    "proxy::upstream debug response received from the endpoint",
    "proxy::server debug request ended",
    "proxy::access info request",
  ]);
  expect(lineOf(lines, "request received")).toMatchObject({ method: "GET", path: "/v1/chat" });
  expect(lineOf(lines, "route matched")).toMatchObject({ route: "default/chat", match: "path prefix /v1" });
  expect(lineOf(lines, "other rules do not match")).toMatchObject({
    rules: ["default/posts/0: method is not POST", "default/images/0: path is not under /images"],
  });
  const limits = lines.filter(({ msg }) => msg === "limit allowed");
  expect(limits[0]).toMatchObject({
    ...{ kind: "localRateLimit", policy: "default/chat", entry: 0, key: "ann" },
    ...{ limit: 5, used: 1, remaining: 4, counts: "requests" },
  });
  expect(limits[1]).toMatchObject({ kind: "globalRateLimit", by: "service" });
  const responded = lineOf(lines, "rate limit service responded");
  expect(responded).toMatchObject({ code: "OK", limits: ["OK, 7 of 10 in 60 s left, resets in 42000 ms"] });
  expect(lineOf(lines, "endpoint picked")).toMatchObject({
    ...{ backend: "Backend/default/llm", endpoint: fixture.endpoint, call: 1, candidates: 1 },
  });
  expect(lineOf(lines, "response received from the endpoint")).toMatchObject({
    endpoint: fixture.endpoint,
    status: 200,
  });
  expect(lineOf(lines, "request ended")).toMatchObject({ status: 200, calls: 1 });
  expect(JSON.stringify(fixture.proxy.log)).not.toContain("canary");
});

test("at trace the log has the heads, the counters and the calls to the service, without their secrets", async () => {
  const fixture = await startChat();
  await setLevel(fixture, "trace");
  const lines = await requestLines(fixture, "r-trace");
  const path = "/v1/chat?token=<redacted>";
  expect(lineOf(lines, "request head received")).toMatchObject({
    path,
    headers: { "x-user": "ann", authorization: "<redacted>", "x-api-key": "<redacted>", cookie: "<redacted>" },
  });
  expect(lineOf(lines, "counter read")).toMatchObject({ before: 0, cost: 1, after: 1 });
  expect(lineOf(lines, "rate limit service asked")).toMatchObject({
    ...{ policy: "default/chat", method: "shouldRateLimit", domain: "chat", hits: 1 },
    descriptors: [expect.stringMatching(/^plan=free, api_key=sha256:/)],
  });
  expect(lineOf(lines, "request head sent")).toMatchObject({
    ...{ path, endpoint: fixture.endpoint },
    headers: { "x-request-id": "r-trace", authorization: "<redacted>" },
  });
  expect(lineOf(lines, "response head received")).toMatchObject({ status: 200 });
  expect(lineOf(lines, "response head sent")).toMatchObject({
    status: 200,
    headers: { "x-ratelimit-limit": expect.any(String) as string },
  });
  expect(JSON.stringify(fixture.proxy.log)).not.toContain("canary");
});

test("a filter of one module, or of the requests of one route, shows no other lines", async () => {
  const fixture = await startChat();
  await setLevel(fixture, "info,proxy::ratelimit=debug");
  const ofModule = await requestLines(fixture, "r-module");
  expect(new Set(ofModule.map(({ module }) => module))).toEqual(new Set(["proxy::ratelimit", "proxy::access"]));
  await setLevel(fixture, "info,proxy::routing[request{route=default/images}]=debug");
  const ofOther = await requestLines(fixture, "r-other");
  expect(ofOther.map(({ msg }) => msg)).toEqual(["request"]);
  await setLevel(fixture, "info,proxy::routing[request{route=default/chat}]=debug");
  const ofRoute = await requestLines(fixture, "r-route");
  expect(ofRoute.map(({ msg }) => msg)).toEqual(["route matched", "other rules do not match", "request"]);
});

test("the log says why a request is denied, and why an attempt failed", async () => {
  const port = await freePort();
  const text = manifests(
    gatewayManifest(port),
    backendManifest("dead", await freePort()),
    routeManifest("chat", [
      `{ matches: [{ path: { type: Exact, value: /chat } }], backendRefs: [${backendRef("dead")}] }`,
    ]),
  );
  const proxy = await startProxy({ "all.yaml": text }, ["--workers", "1", "--log-level", "debug"]);
  const send = async (path: string, id: string): Promise<readonly LogLine[]> => {
    await (await fetch(`http://127.0.0.1:${port}${path}`, { headers: { "x-request-id": id } })).text();
    await proxy.logged(({ msg, requestId }) => requestId === id && msg === "request");
    return proxy.log.filter(({ requestId }) => requestId === id);
  };
  const missed = await send("/other", "r-missed");
  expect(lineOf(missed, "no route matched")).toMatchObject({ listener: "default/web/http" });
  expect(lineOf(missed, "other rules do not match")).toMatchObject({ rules: ["default/chat/0: path is not /chat"] });
  expect(lineOf(missed, "request ended")).toMatchObject({ status: 404, reason: "RouteNotFound" });
  const failed = await send("/chat", "r-failed");
  expect(failed.filter(({ msg }) => msg === "attempt failed")).toHaveLength(2);
  expect(lineOf(failed, "attempt failed")).toMatchObject({ error: expect.stringContaining("ECONNREFUSED") as string });
  expect(lineOf(failed, "call retried")).toMatchObject({ cause: "connect" });
  expect(lineOf(failed, "request ended")).toMatchObject({ status: 503, reason: "UpstreamConnectFailure", calls: 2 });
});
