/**
 * What a trace crosses: a client, the proxy, the rate limit service and a backend, each of which exports spans of its
 * own. The client and the backend are in this process.
 */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { newSpanId, newTraceId } from "@gatewayproxy/runtime/ids";
import { openSender } from "@gatewayproxy/runtime/open-sender";
import { openTracing, type Tracing } from "@gatewayproxy/runtime/open-tracing";
import { parseTraceparent, renderTraceparent } from "@gatewayproxy/runtime/trace-context";
import { readTracingSettings } from "@gatewayproxy/runtime/tracing-settings";
import { onTestFinished, vi } from "vitest";
import { startBackend } from "./backend.ts";
import { freePort } from "./free-port.ts";
import { backendManifest, backendRef, gatewayManifest, manifests, routeManifest } from "./gateway.ts";
import { byAddress, globalPolicy } from "./global-policy.ts";
import { type ProxyProcess, startProxy } from "./proxy-process.ts";
import { startRateLimitService } from "./ratelimit-process.ts";

type Variables = Readonly<Record<string, string>>;

export interface TracedPrograms {
  readonly proxy: ProxyProcess;
  /** Of the only route, which has a limit of the rate limit service. */
  readonly url: string;
  /**
   * Makes a request of the client, with its span.
   *
   * @param send sends the request with this `traceparent`.
   * @returns the trace id.
   */
  readonly request: (send: (traceparent: string) => Promise<unknown>) => Promise<string>;
}

/** Each span of a trace, as `service: name`, with those below it. */
export const wholeTrace = [
  [
    "client: GET",
    [
      "gateway-proxy: GET /",
      [
        "gateway-proxy: envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
        ["RateLimit: envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", ["RateLimit: count memory"]],
      ],
      ["gateway-proxy: GET", ["backend: GET /items"]],
    ],
  ],
];

export interface TracedSpan {
  readonly service: string;
  readonly name: string;
  readonly spanId: string;
  /** Undefined or empty for the first span of a trace. */
  readonly parentSpanId?: string | undefined;
  /** In any unit. */
  readonly start: bigint;
}

/** Arranges the spans of one trace as in `wholeTrace`. Spans whose parent is missing are left out. */
export function treeOf(spans: readonly TracedSpan[], parentSpanId = ""): readonly unknown[] {
  return spans
    .filter((each) => (each.parentSpanId ?? "") === parentSpanId)
    .toSorted((a, b) => Number(a.start - b.start))
    .map(({ service, name, spanId }) => [`${service}: ${name}`, ...treeOf(spans, spanId)]);
}

/** Starts all until the test ends. @param env the variables of the export. @param args of the proxy. */
export async function startTracedPrograms(env: Variables, args: readonly string[] = []): Promise<TracedPrograms> {
  const variables = { ...env, OTEL_BSP_SCHEDULE_DELAY: "20" };
  const [client, backend] = [await tracingOf("client", variables), await tracingOf("backend", variables)];
  const upstream = await startBackend((request, response) => {
    const parent = parseTraceparent(request.headers["traceparent"] as string | undefined);
    if (parent !== undefined) {
      backend.sink.add([span("GET /items", "server", parent.traceId, newSpanId(), parent.spanId)]);
    }
    response.end("hello");
  });
  const limits = await startRateLimitService(await limitsFolder(), { ...variables, TRACING_ENABLED: "true" });
  onTestFinished(() => limits.kill());
  const port = await freePort();
  const text = manifests(
    gatewayManifest().replace("port: 80", `port: ${port}`),
    backendManifest("b", upstream.port),
    routeManifest("chat", [`{ backendRefs: [${backendRef("b")}] }`]),
    globalPolicy(`address: '127.0.0.1:${limits.grpcPort}', ${byAddress}`),
  );
  const listen = ["--listen-address", "127.0.0.1", "--workers", "1"];
  const proxy = await startProxy({ "all.yaml": text }, [...listen, ...args], variables);
  return {
    proxy,
    url: `http://127.0.0.1:${port}/items`,
    async request(send) {
      const [traceId, spanId] = [newTraceId(), newSpanId()];
      await send(renderTraceparent(traceId, spanId, true));
      client.sink.add([span("GET", "client", traceId, spanId)]);
      return traceId;
    },
  };
}

/** Exports spans of a program that is in this process. */
async function tracingOf(service: string, env: Variables): Promise<Tracing> {
  for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value);
  const read = readTracingSettings(env, { endpointSwitchesOn: true, resource: { "service.name": service } });
  if (!read.ok || read.value === undefined) throw new Error(JSON.stringify(read));
  const observer = { ended: () => undefined, problem: (message: string) => console.error(message) };
  const tracing = await openTracing(read.value, {
    name: service,
    version: "1",
    random: Math.random,
    openSender,
    observer,
  });
  onTestFinished(async () => {
    vi.unstubAllEnvs();
    await tracing.sink.close(1_000);
  });
  return tracing;
}

function span(name: string, kind: "client" | "server", traceId: string, spanId: string, parentSpanId?: string) {
  const [startMs, endMs] = [Date.now(), Date.now() + 1];
  const place = { traceId, spanId, parentSpanId, isParentRemote: kind === "server", tracestate: undefined };
  return { name, kind, ...place, startMs, endMs, isError: false, attributes: {} };
}

/** Creates a folder with a limit of 10 requests an hour for each client, until the test ends. */
export async function limitsFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "gatewayproxy-limits-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const limit = "{ unit: hour, requests_per_unit: 10 }";
  await writeFile(
    join(folder, "chat.yaml"),
    `domain: chat\ndescriptors:\n  - key: remote_address\n    rate_limit: ${limit}\n`,
  );
  return folder;
}
