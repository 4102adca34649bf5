/** The spans of the HTTP port, and the counts of spans, with a collector and without one. */
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { waitFor } from "@gatewayproxy/runtime/testing/wait-for";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { type InProcessService, startInProcess } from "../support/ratelimit-in-process.ts";

const traceId = "4bf92f3577b34da6a3ce929d0e0e4736";
const callerSpan = "00f067aa0ba902b7";
const call = JSON.stringify({ domain: "chat", descriptors: [{ entries: [{ key: "user", value: "secret-value" }] }] });

/** A server that takes what a collector takes, and keeps it. @param status resolves with that of its responses. */
async function startReceiver(status = Promise.resolve(200)) {
  const bodies: Buffer[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      bodies.push(Buffer.concat(chunks));
      void status.then((code) => response.writeHead(code, { "content-type": "application/x-protobuf" }).end());
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  return { text: () => Buffer.concat(bodies), url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

async function serve(env: Readonly<Record<string, string>>): Promise<InProcessService> {
  const folder = await mkdtemp(join(tmpdir(), "gatewayproxy-limits-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const limit = "{ unit: hour, requests_per_unit: 1 }";
  await mkdir(join(folder, "config"));
  await writeFile(
    join(folder, "config", "chat.yaml"),
    `domain: chat\ndescriptors:\n  - key: user\n    rate_limit: ${limit}\n`,
  );
  const variables = {
    ...{ TRACING_ENABLED: "true", OTEL_EXPORTER_OTLP_PROTOCOL: "http/protobuf", OTEL_BSP_SCHEDULE_DELAY: "10" },
    ...{ RUNTIME_ROOT: folder, BACKEND_TYPE: "memory" },
    ...env,
  };
  // The exporter reads them itself.
  for (const [name, value] of Object.entries(variables)) vi.stubEnv(name, value);
  onTestFinished(() => void vi.unstubAllEnvs());
  return startInProcess(variables);
}

const post = (service: InProcessService, body: string) =>
  fetch(`${service.http}/json`, {
    method: "POST",
    body,
    headers: { traceparent: `00-${traceId}-${callerSpan}-01` },
  });

test("a call over HTTP has a span below that of its caller, and its store one below it", async () => {
  const receiver = await startReceiver();
  const service = await serve({ OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url });
  expect((await post(service, call)).status).toBe(200);
  expect((await post(service, call)).status).toBe(429);
  expect((await post(service, "no JSON")).status).toBe(400);
  await fetch(`${service.http}/healthcheck`);
  // Two spans of each decided call, one of the other, and that of the configuration.
  await waitFor(async () => expect((await service.stats()).get("ratelimit.service.trace_spans_exported")).toBe(6), {
    timeout: 10_000,
  });
  const sent = receiver.text();
  const count = (part: string | Buffer): number => sent.toString("latin1").split(part.toString("latin1")).length - 1;
  expect(count(Buffer.from(traceId, "hex"))).toBe(5);
  expect(count(Buffer.from(callerSpan, "hex"))).toBe(3);
  expect(count("POST /json")).toBe(3);
  expect(count("count memory")).toBe(2);
  expect(count("OVER_LIMIT")).toBe(1);
  expect(count("healthcheck")).toBe(0);
  expect(count("secret-value")).toBe(0);
});

test("spans that no collector takes are counted, and no call waits for it", async () => {
  const held = Promise.withResolvers<number>();
  const receiver = await startReceiver(held.promise);
  const service = await serve({ OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url, OTEL_BSP_MAX_QUEUE_SIZE: "2" });
  for (let at = 0; at < 5; at++) await post(service, call);
  const counted = async (outcome: string): Promise<number> =>
    (await service.stats()).get(`ratelimit.service.trace_spans_${outcome}`) ?? 0;
  expect(await counted("dropped")).toBeGreaterThan(0);
  held.resolve(400);
  await waitFor(async () => expect(await counted("failed")).toBeGreaterThan(0), { timeout: 10_000 });
  expect(await counted("exported")).toBe(0);
});

describe("lines about a call over HTTP", () => {
  const linesOf = (service: InProcessService, id: string) =>
    service.output
      .map((line) => JSON.parse(line) as Readonly<Record<string, unknown>>)
      .filter(({ trace_id }) => trace_id === id);
  const away = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:1", LOG_FORMAT: "json", LOG_LEVEL: "trace" };

  test.each([
    ["the span of the caller without spans of the service", "false"],
    ["that of the service with them", "true"],
  ])("have the trace and %s", async (_, isTraced) => {
    const service = await serve({ ...away, TRACING_ENABLED: isTraced });
    await post(service, call);
    const lines = linesOf(service, traceId);
    expect(lines.map(({ msg }) => msg)).toEqual(
      expect.arrayContaining(["call received", "limit allowed", "request head received", "response sent"]),
    );
    const [span, ...others] = new Set(lines.map(({ span_id }) => span_id));
    expect(others).toEqual([]);
    expect(span === callerSpan).toBe(isTraced === "false");
  });

  test.each([
    ["error", "call failed", 400],
    ["local", "call counted in memory, because the store is unavailable", 200],
  ])("have the trace also while the store is unavailable, with FAILURE_MODE=%s", async (mode, message, status) => {
    const store = { BACKEND_TYPE: "redis", REDIS_URL: "127.0.0.1:1", FAILURE_MODE: mode };
    const service = await serve({ ...away, ...store });
    expect((await post(service, call)).status).toBe(status);
    expect(linesOf(service, traceId).map(({ msg }) => msg)).toContain(message);
  });
});
