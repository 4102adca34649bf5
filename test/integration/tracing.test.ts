/** The spans of requests, and the trace context towards backends and rate limit services, end to end. */
import { status } from "@grpc/grpc-js";
import { Propagation, type Propagator } from "@gatewayproxy/runtime/propagation";
import { samplerOf, type SamplerSettings } from "@gatewayproxy/runtime/sampling";
import type { FinishedSpan } from "@gatewayproxy/runtime/span";
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { waitFor } from "@gatewayproxy/runtime/testing/wait-for";
import { describe, expect, test } from "vitest";
import { RequestTracing, type TracedAlways } from "../../proxy/src/telemetry/spans/request-tracing.ts";
import { echo, type Echo, respondWith, startBackend } from "../support/backend.ts";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  policyManifest,
  routeManifest,
  startGateway,
} from "../support/gateway.ts";
import { byAddress, globalPolicy, tokensByUser } from "../support/global-policy.ts";
import { rawHttp } from "../support/raw-http.ts";
import { type Script, type ScriptedResponse, startScriptedService } from "../support/rate-limit-service.ts";

const traceId = "4bf92f3577b34da6a3ce929d0e0e4736";
const clientSpan = "00f067aa0ba902b7";
const fromClient = { traceparent: `00-${traceId}-${clientSpan}-01`, tracestate: "rojo=1" };

interface TracingOptions {
  readonly sampler?: SamplerSettings;
  readonly ignoresCallers?: boolean;
  readonly always?: TracedAlways;
  readonly propagators?: readonly Propagator[];
  readonly semconvOptIn?: readonly string[];
}

/** Traces whose spans are kept in memory, in the order of their export. */
function recordedTracing(options: TracingOptions = {}) {
  const { sampler = { isParentBased: true, ratio: 1 }, ignoresCallers = false, always = "none" } = options;
  const { propagators = ["tracecontext", "baggage"], semconvOptIn = [] } = options;
  const spans: FinishedSpan[] = [];
  const sink = { add: (ended: readonly FinishedSpan[]) => void spans.push(...ended), close: () => Promise.resolve() };
  const sample = samplerOf(sampler, ignoresCallers, () => 0.9);
  const opened = { propagation: new Propagation(propagators), sample, sink, semconvOptIn };
  return { spans, tracing: new RequestTracing(new FakeClock(), opened, always, 1) };
}

/** A gateway with one route, under the path prefix /v1. */
async function serve(port: number, options: TracingOptions = {}, rule = "", ...more: readonly string[]) {
  const { spans, tracing } = recordedTracing(options);
  const route = routeManifest("chat", [
    `{ ${rule} matches: [{ path: { type: PathPrefix, value: /v1 } }], backendRefs: [${backendRef("b")}] }`,
  ]);
  const gateway = await startGateway(manifests(gatewayManifest(), backendManifest("b", port), route, ...more), {
    tracing,
  });
  return { gateway, spans, url: `${gateway.url()}/v1/items` };
}

/** Headers that the backend got. */
async function echoed(response: Response): Promise<Readonly<Record<string, string | undefined>>> {
  return ((await response.json()) as Echo).headers;
}

const named = (spans: readonly FinishedSpan[], kind: FinishedSpan["kind"]) =>
  spans.filter((span) => span.kind === kind);

describe("the trace of a client", () => {
  test("continues in a span for the request, one for the attempt, and in the backend", async () => {
    const { port } = await startBackend(echo);
    const { spans, url } = await serve(port);
    const headers = await echoed(
      await fetch(`${url}?key=SECRET`, { headers: { ...fromClient, baggage: "team=blue" } }),
    );
    const [attempt, request] = spans;
    expect(spans).toHaveLength(2);
    expect(request).toMatchObject({
      name: "GET /v1",
      kind: "server",
      traceId,
      parentSpanId: clientSpan,
      isParentRemote: true,
      tracestate: "rojo=1",
      isError: false,
      attributes: {
        "http.request.method": "GET",
        "http.route": "/v1",
        "url.path": "/v1/items",
        "url.scheme": "http",
        "http.response.status_code": 200,
        "client.address": "127.0.0.1",
        "gatewayproxy.route": "default/chat",
        "gatewayproxy.rule": "default/chat/0",
      },
    });
    expect(attempt).toMatchObject({
      name: "GET",
      kind: "client",
      traceId,
      parentSpanId: request?.spanId,
      attributes: {
        "server.port": port,
        "url.full": `http://127.0.0.1:${port}/v1/items`,
        "http.response.status_code": 200,
        "gatewayproxy.backend": "Backend/default/b",
      },
    });
    expect(headers["traceparent"]).toBe(`00-${traceId}-${attempt?.spanId}-01`);
    expect(headers["tracestate"]).toBe("rojo=1");
    expect(headers["baggage"]).toBe("team=blue");
    expect(JSON.stringify(spans)).not.toContain("SECRET");
  });

  test("is in the record, for the logs, with our span", async () => {
    const { port } = await startBackend(respondWith(200));
    const { gateway, spans, url } = await serve(port);
    await fetch(url, { headers: fromClient });
    expect(gateway.records[0]).toMatchObject({ traceId, spanId: named(spans, "server")[0]?.spanId });
  });

  test("is in the record with the span of the client if the proxy does not trace", async () => {
    const { port } = await startBackend(echo);
    const route = routeManifest("r", [`{ backendRefs: [${backendRef("b")}] }`]);
    const gateway = await startGateway(manifests(gatewayManifest(), backendManifest("b", port), route));
    const headers = await echoed(await fetch(gateway.url(), { headers: fromClient }));
    expect(gateway.records[0]).toMatchObject({ traceId, spanId: clientSpan });
    expect(headers["traceparent"]).toBe(fromClient.traceparent);
  });

  test("is not continued if its context is not valid, and the backend gets none of it", async () => {
    const { port } = await startBackend(echo);
    const { spans, url } = await serve(port);
    const invalid = { traceparent: "00-nonsense", tracestate: "x", baggage: "a=b,".repeat(3_000) };
    const headers = await echoed(await fetch(url, { headers: invalid }));
    const [, request] = spans;
    expect(request?.parentSpanId).toBeUndefined();
    expect(headers["traceparent"]).toContain(request?.traceId);
    expect([headers["tracestate"], headers["baggage"]]).toEqual([undefined, undefined]);
  });

  test("passes in the formats of the setting", async () => {
    const { port } = await startBackend(echo);
    const { spans, url } = await serve(port, { propagators: ["b3", "b3multi"] });
    const headers = await echoed(await fetch(url, { headers: { b3: `${traceId}-${clientSpan}-1` } }));
    const [attempt, request] = spans;
    expect(request).toMatchObject({ traceId, parentSpanId: clientSpan });
    expect(headers["b3"]).toBe(`${traceId}-${attempt?.spanId}-1`);
    expect(headers["x-b3-traceid"]).toBe(traceId);
    expect(headers["traceparent"]).toBeUndefined();
  });

  test("is removed for a backend by a filter of its rule", async () => {
    const { port } = await startBackend(echo);
    const filter = "filters: [{ type: RequestHeaderModifier, requestHeaderModifier: { remove: [traceparent] } }],";
    const { url } = await serve(port, {}, filter);
    expect((await echoed(await fetch(url)))["traceparent"]).toBeUndefined();
  });
});

describe("sampling", () => {
  test("follows the client by default, and the backend gets the decision", async () => {
    const { port } = await startBackend(echo);
    const { spans, url } = await serve(port, { sampler: { isParentBased: true, ratio: 1 } });
    const headers = await echoed(await fetch(url, { headers: { traceparent: `00-${traceId}-${clientSpan}-00` } }));
    expect(spans).toHaveLength(0);
    expect(headers["traceparent"]).toMatch(new RegExp(`^00-${traceId}-[0-9a-f]{16}-00$`));
  });

  test("ignores the client where the setting says so: no client can force it", async () => {
    const { port } = await startBackend(echo);
    const { spans, url } = await serve(port, { sampler: { isParentBased: true, ratio: 0.5 }, ignoresCallers: true });
    const headers = await echoed(await fetch(url, { headers: fromClient }));
    expect(spans).toHaveLength(0);
    expect(headers["traceparent"]).toMatch(/-00$/);
  });

  test("leaves out no failed and no denied request where the setting says so", async () => {
    const backend = await startBackend((request, response) => {
      response.writeHead(request.url?.endsWith("/broken") === true ? 503 : 200).end();
    });
    const limits = policyManifest("limits", "kind: HTTPRoute, name: chat", ["{ requests: 2, unit: Hours }"]);
    const options = { sampler: { isParentBased: true, ratio: 0 }, always: "denied-and-failed" } as const;
    const { spans, url } = await serve(backend.port, options, "", limits);
    expect((await fetch(url)).status).toBe(200);
    expect(spans).toHaveLength(0);
    expect((await fetch(`${url}/broken`)).status).toBe(503);
    expect(named(spans, "client")).toMatchObject([{ isError: true, attributes: { "error.type": "503" } }]);
    expect((await fetch(url)).status).toBe(429);
    expect(named(spans, "server")).toMatchObject([
      { isError: true, attributes: { "gatewayproxy.limits.decision": "allowed", "error.type": "503" } },
      {
        isError: false,
        attributes: {
          "http.response.status_code": 429,
          "gatewayproxy.limits.decision": "denied",
          "gatewayproxy.limits.denied_by": ["default/limits#0 HTTPRoute/default/chat"],
          "gatewayproxy.reason": "RateLimited",
        },
      },
    ]);
  });
});

describe("calls of a request", () => {
  test("each attempt has a span of its own, and the backend the context of that attempt", async () => {
    const seen: (string | undefined)[] = [];
    const { port } = await startBackend((request, response) => {
      seen.push(request.headers["traceparent"] as string | undefined);
      response.writeHead(seen.length < 3 ? 503 : 200).end();
    });
    const { gateway, spans, url } = await serve(port, {}, "retry: { codes: [503], attempts: 3 },");
    const response = fetch(url);
    await waitFor(() => {
      gateway.clock.advance(100);
      expect(spans).toHaveLength(4);
    });
    expect((await response).status).toBe(200);
    const attempts = named(spans, "client");
    expect(attempts.map(({ attributes }) => attributes["http.request.resend_count"])).toEqual([undefined, 1, 2]);
    expect(attempts.map(({ isError }) => isError)).toEqual([true, true, false]);
    expect(seen).toEqual(attempts.map((span) => `00-${span.traceId}-${span.spanId}-01`));
  });

  test("an attempt without a connection has the failure", async () => {
    const { spans, url } = await serve(1);
    expect((await fetch(url)).status).toBe(503);
    expect(named(spans, "client").at(-1)).toMatchObject({ isError: true, attributes: { "error.type": "connect" } });
    expect(named(spans, "server")).toMatchObject([
      { isError: true, attributes: { "error.type": "UpstreamConnectFailure" } },
    ]);
  });

  test("the call of a rate limit service has a span, and the service its context", async () => {
    const allow: Script = () => ({ overallCode: "OK", statuses: [{ code: "OK" }] });
    const service = await startScriptedService(allow);
    const { port } = await startBackend(respondWith(200));
    const policy = globalPolicy(`address: '127.0.0.1:${service.port}', ${byAddress}`);
    const { spans, tracing } = recordedTracing();
    const route = routeManifest("chat", [`{ backendRefs: [${backendRef("b")}] }`]);
    const gateway = await startGateway(manifests(gatewayManifest(), backendManifest("b", port), route, policy), {
      tracing,
    });
    await fetch(gateway.url(), { headers: { ...fromClient, baggage: "team=blue" } });
    const [call] = spans;
    expect(call).toMatchObject({
      name: "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
      kind: "client",
      traceId,
      parentSpanId: named(spans, "server")[0]?.spanId,
      attributes: {
        "rpc.system.name": "grpc",
        "rpc.response.status_code": "OK",
        "gatewayproxy.ratelimit.code": "OK",
        "gatewayproxy.ratelimit.domain": "chat",
      },
    });
    expect(service.calls[0]?.metadata.get("traceparent")).toEqual([`00-${traceId}-${call?.spanId}-01`]);
    expect(service.calls[0]?.metadata.get("tracestate")).toEqual(["rojo=1"]);
    expect(service.calls[0]?.metadata.get("baggage")).toEqual(["team=blue"]);
    await fetch(gateway.url(), { headers: { baggage: `long=${"x".repeat(8_000)}` } });
    expect(service.calls[1]?.metadata.get("baggage")).toEqual([]);
  });
});

describe("calls that no response waits for", () => {
  const usage = { prompt_tokens: 7, completion_tokens: 5, total_tokens: 12 };
  const allow: ScriptedResponse = { overallCode: "OK", statuses: [{ code: "OK" }] };

  /** A gateway before an LLM, under a budget of tokens at a service. */
  async function chargedBy(script: Script, options: TracingOptions = {}) {
    const service = await startScriptedService(script);
    const { port } = await startBackend((request, response) => {
      request.resume();
      response.writeHead(200, { "content-type": "application/json" });
      response.end(JSON.stringify({ choices: [], usage }));
    });
    const policy = globalPolicy(`address: '127.0.0.1:${service.port}', ${tokensByUser}`);
    const { spans, tracing } = recordedTracing(options);
    const route = routeManifest("chat", [`{ backendRefs: [${backendRef("b")}] }`]);
    const text = manifests(gatewayManifest(), backendManifest("b", port), route, policy);
    const gateway = await startGateway(text, { tracing });
    const ask = async (headers: Readonly<Record<string, string>> = fromClient): Promise<void> => {
      const init = { method: "POST", headers: { "x-user": "ann", ...headers }, body: "{}" };
      await (await fetch(`${gateway.url()}/v1/chat/completions`, init)).text();
    };
    return { spans, service, ask, clock: gateway.clock };
  }

  test("the charge of a response has a span below its request, although it ends later, and the service its context", async () => {
    const held = Promise.withResolvers<ScriptedResponse>();
    const { spans, service, ask } = await chargedBy((_, number) => (number === 1 ? allow : held.promise));
    await ask();
    await service.received(2);
    await waitFor(() => expect(named(spans, "server")).toHaveLength(1));
    const [request] = named(spans, "server");
    expect(named(spans, "client")).toHaveLength(2);
    held.resolve(allow);
    await waitFor(() => expect(spans).toHaveLength(4));
    const charge = spans.at(-1);
    expect(charge).toMatchObject({
      name: "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
      kind: "client",
      traceId,
      parentSpanId: request?.spanId,
      isError: false,
      attributes: { "rpc.response.status_code": "OK", "gatewayproxy.ratelimit.code": "OK" },
    });
    expect(service.calls[1]?.metadata.get("traceparent")).toEqual([`00-${traceId}-${charge?.spanId}-01`]);
  });

  test("a charge that fails has the failure, and the one that is sent again later has no span", async () => {
    const failure = { code: status.INTERNAL, details: "no" } as const;
    const { spans, service, ask, clock } = await chargedBy((_, number) => (number === 2 ? failure : allow));
    await ask();
    await service.received(2);
    await waitFor(() => expect(spans).toHaveLength(4));
    const failed = spans.filter(({ isError }) => isError);
    expect(failed).toMatchObject([{ kind: "client", attributes: { "rpc.response.status_code": "INTERNAL" } }]);
    clock.advance(500);
    await service.received(3);
    expect(service.calls[2]?.metadata.get("traceparent")).toEqual([]);
    expect(spans).toHaveLength(4);
  });

  test("the charge of a request that is not exported has none, and the service knows that", async () => {
    const { spans, service, ask } = await chargedBy(() => allow, { always: "denied-and-failed" });
    await ask({ traceparent: `00-${traceId}-${clientSpan}-00` });
    await service.received(2);
    expect(service.calls[1]?.metadata.get("traceparent")).toEqual([
      expect.stringMatching(new RegExp(`^00-${traceId}-[0-9a-f]{16}-00$`)),
    ]);
    expect(spans).toEqual([]);
  });

  test("a mirror has a span, and gets its context", async () => {
    const seen: (string | undefined)[] = [];
    const held = Promise.withResolvers<undefined>();
    const mirror = await startBackend((request, response) => {
      seen.push(request.headers["traceparent"] as string | undefined);
      void held.promise.then(() => response.writeHead(503).end());
    });
    const { port } = await startBackend(echo);
    const target = "{ group: gatewayproxy.dev, kind: Backend, name: copy }";
    const filter = `filters: [{ type: RequestMirror, requestMirror: { backendRef: ${target} } }],`;
    const { spans, url } = await serve(port, {}, filter, backendManifest("copy", mirror.port));
    const headers = await echoed(await fetch(url, { headers: fromClient }));
    expect(spans).toHaveLength(2);
    held.resolve(undefined);
    await waitFor(() => expect(spans).toHaveLength(3));
    const [attempt, request, copy] = spans;
    expect(copy).toMatchObject({
      name: "GET",
      kind: "client",
      traceId,
      parentSpanId: request?.spanId,
      isError: true,
      attributes: {
        "gatewayproxy.mirror": true,
        "gatewayproxy.backend": "Backend/default/copy",
        "http.response.status_code": 503,
        "server.port": mirror.port,
      },
    });
    expect(seen).toEqual([`00-${traceId}-${copy?.spanId}-01`]);
    expect(headers["traceparent"]).toBe(`00-${traceId}-${attempt?.spanId}-01`);
  });
});

describe("a call of an LLM provider", () => {
  const body = JSON.stringify({ model: "gpt-x", messages: [{ role: "user", content: "PROMPT" }] });
  const usage = {
    prompt_tokens: 7,
    completion_tokens: 5,
    total_tokens: 12,
    prompt_tokens_details: { cached_tokens: 3 },
  };

  async function chat(semconvOptIn: readonly string[]): Promise<readonly FinishedSpan[]> {
    const { port } = await startBackend((request, response) => {
      request.resume();
      response.writeHead(200, { "content-type": "application/json" });
      response.end(JSON.stringify({ model: "gpt-x-1", choices: [{ message: { content: "REPLY" } }], usage }));
    });
    const { spans, tracing } = recordedTracing({ semconvOptIn });
    const backend = `
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: { name: llm, namespace: default }
spec: { ai: { provider: { openai: {} }, host: 127.0.0.1, port: ${port} } }
`;
    const route = routeManifest("chat", [`{ backendRefs: [${backendRef("llm")}] }`]);
    const tokens = policyManifest("limits", "kind: HTTPRoute, name: chat", [
      "{ tokens: 1000, unit: Hours, key: 'llm.requestModel' }",
    ]);
    const gateway = await startGateway(manifests(gatewayManifest(), backend, route, tokens), { tracing });
    const response = await fetch(`${gateway.url()}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: "Bearer sk-SECRETSECRETSECRET" },
      body,
    });
    expect(response.status).toBe(200);
    await response.text();
    return spans;
  }

  test("has the operation, the models and the tokens, and no text of the conversation", async () => {
    const spans = await chat([]);
    expect(named(spans, "client")).toMatchObject([
      {
        name: "chat gpt-x",
        attributes: {
          "gen_ai.operation.name": "chat",
          "gen_ai.provider.name": "openai",
          "gen_ai.system": "openai",
          "gen_ai.request.model": "gpt-x",
          "gen_ai.response.model": "gpt-x-1",
          "gen_ai.usage.input_tokens": 7,
          "gen_ai.usage.output_tokens": 5,
        },
      },
    ]);
    expect(JSON.stringify(spans)).not.toMatch(/PROMPT|REPLY|SECRET/);
  });

  test("has the latest names, and not the earlier ones, by OTEL_SEMCONV_STABILITY_OPT_IN", async () => {
    const [attempt] = named(await chat(["gen_ai_latest_experimental"]), "client");
    expect(attempt?.attributes["gen_ai.system"]).toBeUndefined();
    expect(attempt?.attributes["gen_ai.usage.cache_read.input_tokens"]).toBe(3);
  });
});

describe("requests that no rule serves", () => {
  test("have a span with the method only as its name, and unknown methods a constant one", async () => {
    const { port } = await startBackend();
    const { gateway, spans } = await serve(port);
    expect((await fetch(`${gateway.url()}/nowhere`)).status).toBe(404);
    await rawHttp(gateway.url(), "BREW / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
    await waitFor(() => expect(spans).toHaveLength(2));
    expect(spans.map(({ name }) => name)).toEqual(["GET", "HTTP"]);
    expect(spans[1]?.attributes).toMatchObject({
      "http.request.method": "_OTHER",
      "http.request.method_original": "BREW",
    });
  });

  test("have a span although their head is rejected", async () => {
    const { port } = await startBackend();
    const { gateway, spans } = await serve(port);
    await rawHttp(gateway.url(), "GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\nconnection: close\r\n\r\n");
    await waitFor(() => expect(spans).toHaveLength(1));
    expect(spans[0]?.attributes).toMatchObject({ "gatewayproxy.reason": "BadRequest" });
  });
});
