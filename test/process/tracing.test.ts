/** Traces of the proxy as a process: settings, the export, and a collector that is not there. */
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { waitFor } from "@gatewayproxy/runtime/testing/wait-for";
import { describe, expect, onTestFinished, test } from "vitest";
import { respondWith, startBackend } from "../support/backend.ts";
import { freePort } from "../support/free-port.ts";
import { backendManifest, backendRef, gatewayManifest, manifests, routeManifest } from "../support/gateway.ts";
import { type ProxyProcess, spawnProxy, startProxy } from "../support/proxy-process.ts";

interface Export {
  readonly url: string | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** A server that takes what a collector takes, and keeps it. */
async function startReceiver() {
  const exports: Export[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      exports.push({ url: request.url, headers: request.headers, body: Buffer.concat(chunks) });
      response.writeHead(200, { "content-type": "application/x-protobuf" }).end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  return { exports, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

async function serve(env: Readonly<Record<string, string>>): Promise<{ proxy: ProxyProcess; url: string }> {
  const backend = await startBackend(respondWith(200, "hello"));
  const port = await freePort();
  const text = manifests(
    gatewayManifest().replace("port: 80", `port: ${port}`),
    backendManifest("b", backend.port),
    routeManifest("r", [`{ backendRefs: [${backendRef("b")}] }`]),
  );
  const args = ["--listen-address", "127.0.0.1", "--workers", "1"];
  return { proxy: await startProxy({ "all.yaml": text }, args, env), url: `http://127.0.0.1:${port}` };
}

async function spansOf({ stats }: ProxyProcess, outcome: string): Promise<number> {
  const text = await (await fetch(`${stats}/metrics`)).text();
  return Number(
    new RegExp(`^gateway_proxy_trace_spans_total\\{outcome="${outcome}"\\} (\\d+)$`, "m").exec(text)?.[1] ?? 0,
  );
}

const isRequest = ({ msg }: Readonly<Record<string, unknown>>): boolean => msg === "request";

describe("the export", () => {
  test("sends spans with the headers of the setting, and the access log has their trace", async () => {
    const receiver = await startReceiver();
    const { proxy, url } = await serve({
      OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
      OTEL_EXPORTER_OTLP_HEADERS: "authorization=Bearer%20collector-secret",
      OTEL_SERVICE_NAME: "edge",
      OTEL_BSP_SCHEDULE_DELAY: "10",
    });
    await fetch(url);
    const line = await proxy.logged(isRequest);
    await waitFor(() => expect(receiver.exports.length).toBeGreaterThan(0), { timeout: 10_000 });
    const [first] = receiver.exports;
    expect(first).toMatchObject({ url: "/v1/traces", headers: { authorization: "Bearer collector-secret" } });
    expect(first?.body.includes(Buffer.from(line["trace_id"] as string, "hex"))).toBe(true);
    expect(first?.body.includes("edge")).toBe(true);
    await waitFor(async () => expect(await spansOf(proxy, "exported")).toBe(2), { timeout: 10_000 });
    expect(JSON.stringify(proxy.log)).not.toContain("collector-secret");
  });

  test("sends what is queued at the shutdown", async () => {
    const receiver = await startReceiver();
    const { proxy, url } = await serve({ OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url, DRAIN_DELAY: "0ms" });
    await fetch(url);
    proxy.kill("SIGTERM");
    await proxy.exited;
    expect(receiver.exports).toHaveLength(1);
  });

  test("to a collector that is not there costs no request anything, and memory is bounded", async () => {
    const { proxy, url } = await serve({
      OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${await freePort()}`,
      OTEL_BSP_SCHEDULE_DELAY: "10",
      OTEL_BSP_MAX_QUEUE_SIZE: "8",
      DRAIN_DELAY: "0ms",
    });
    const statuses = await Promise.all(Array.from({ length: 50 }, async () => (await fetch(url)).status));
    expect(new Set(statuses)).toEqual(new Set([200]));
    expect(await spansOf(proxy, "dropped")).toBeGreaterThan(0);
    proxy.kill("SIGTERM");
    expect(await proxy.exited).toBe(0);
  });
});

describe("settings", () => {
  test("an invalid variable prevents the start, and the message does not show secrets", async () => {
    const env = { OTEL_TRACES_EXPORTER: "otlp", OTEL_EXPORTER_OTLP_PROTOCOL: "carrier-pigeon" };
    const proxy = await spawnProxy({}, [], { ...env, OTEL_EXPORTER_OTLP_HEADERS: "secret-value" });
    expect(await proxy.exited).not.toBe(0);
    expect(proxy.stderr()).toContain('OTEL_EXPORTER_OTLP_PROTOCOL: "carrier-pigeon" is not one of grpc, http/protobuf');
    expect(proxy.stderr()).not.toContain("secret-value");
  });

  test("without them, no span is made, and the access log has the trace of the client", async () => {
    const { proxy, url } = await serve({});
    const traceId = "4bf92f3577b34da6a3ce929d0e0e4736";
    await fetch(url, { headers: { traceparent: `00-${traceId}-00f067aa0ba902b7-01` } });
    expect(await proxy.logged(isRequest)).toMatchObject({ trace_id: traceId, span_id: "00f067aa0ba902b7" });
    await fetch(url);
    await waitFor(() => expect(proxy.log.filter(isRequest)).toHaveLength(2));
    expect(proxy.log.filter(isRequest)[1]).not.toHaveProperty("trace_id");
  });
});
