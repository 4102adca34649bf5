/** The access log of the proxy as a process: settings, a file that is rotated, and the export by OTLP. */
import { mkdtemp, readFile, rename, rm } from "node:fs/promises";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { waitFor } from "@gatewayproxy/runtime/testing/wait-for";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { respondWith, startBackend } from "../support/backend.ts";
import { startCollector } from "../support/collector.ts";
import { describeWith } from "../support/describe-with.ts";
import { freePort } from "../support/free-port.ts";
import { backendManifest, backendRef, gatewayManifest, manifests, routeManifest } from "../support/gateway.ts";
import { type ProxyProcess, spawnProxy, startProxy } from "../support/proxy-process.ts";

vi.setConfig({ testTimeout: 60_000 });

const traceId = "4bf92f3577b34da6a3ce929d0e0e4736";
const traceparent = `00-${traceId}-00f067aa0ba902b7-01`;

async function serve(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<{ proxy: ProxyProcess; url: string }> {
  const backend = await startBackend(respondWith(200, "hello"));
  const port = await freePort();
  const text = manifests(
    gatewayManifest().replace("port: 80", `port: ${port}`),
    backendManifest("b", backend.port),
    routeManifest("r", [`{ matches: [{ path: { value: /in } }], backendRefs: [${backendRef("b")}] }`]),
  );
  const all = ["--listen-address", "127.0.0.1", "--drain-delay", "0ms", ...args];
  return { proxy: await startProxy({ "all.yaml": text }, all, env), url: `http://127.0.0.1:${port}` };
}

async function newFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "gatewayproxy-logs-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  return folder;
}

const linesOf = async (file: string): Promise<readonly string[]> =>
  (await readFile(file, "utf8").catch(() => "")).split("\n").slice(0, -1);
const isRequest = ({ msg }: Readonly<Record<string, unknown>>): boolean => msg === "request";

async function sampleOf({ stats }: ProxyProcess, name: string): Promise<number> {
  const text = await (await fetch(`${stats}/metrics`)).text();
  const sample = text.split("\n").find((line) => line.startsWith(`${name} `));
  return Number(sample?.slice(name.length + 1) ?? 0);
}

describe("the file", () => {
  test("has the lines of all workers, whole, and is opened again after a rotation", async () => {
    const folder = await newFolder();
    const file = join(folder, "access.log");
    const template = '"${log.method} ${log.path}" ${log.status} ${request.headers["x-n"]}';
    const settings = ["--workers", "2", "--access-log-file", file, "--access-log-stdout", "off"];
    const { proxy, url } = await serve([...settings, "--access-log-template", template]);
    const request = async (n: number): Promise<void> => {
      await (
        await fetch(`${url}/in/${"x".repeat(900)}`, { headers: { "x-n": String(n), connection: "close" } })
      ).text();
    };
    const [before, after] = [Array.from({ length: 100 }, (_, n) => n), Array.from({ length: 100 }, (_, n) => 100 + n)];
    await Promise.all(before.map(request));
    await waitFor(async () => expect(await linesOf(file)).toHaveLength(100), { timeout: 10_000 });
    await rename(file, `${file}.1`);
    proxy.kill("SIGHUP");
    await proxy.logged(({ msg }) => msg === "access log file opened again");
    await Promise.all(after.map(request));
    proxy.kill("SIGTERM");
    expect(await proxy.exited).toBe(0);
    const rotated = await linesOf(`${file}.1`);
    const current = await linesOf(file);
    for (const line of [...rotated, ...current]) expect(line).toMatch(/^"GET \/in\/x{900}" 200 \d+$/);
    const numbers = (lines: readonly string[]): readonly number[] =>
      lines.map((line) => Number(line.split(" ").at(-1))).toSorted((a, b) => a - b);
    expect([numbers(rotated), numbers(current)]).toEqual([before, after]);
    expect(proxy.log.filter(isRequest)).toEqual([]);
  });

  test("that cannot be written costs no request anything, and lost lines are counted", async () => {
    const { proxy, url } = await serve(["--workers", "1", "--access-log-file", "/dev/full"]);
    expect((await fetch(`${url}/in`)).status).toBe(200);
    await proxy.logged(({ msg }) => msg === "lines of the access log cannot be written");
    await waitFor(async () => expect(await sampleOf(proxy, "gateway_proxy_access_log_lines_dropped_total")).toBe(1), {
      timeout: 10_000,
    });
    expect(proxy.log.filter(isRequest)).toHaveLength(1);
  });

  test("show headers of the response as the client got them: of a backend after the filters, and of the proxy", async () => {
    const fields =
      'status;kind=response.headers["x-kind"];type=response.headers["content-type"];old=response.headers["x-old"]';
    const edit = "responseHeaderModifier: { set: [{ name: x-kind, value: edited }], remove: [x-old] }";
    const backend = await startBackend((_, response) => {
      response.writeHead(200, { "x-kind": "b", "x-old": "1", "content-type": "a/b" }).end("hello");
    });
    const port = await freePort();
    const text = manifests(
      gatewayManifest().replace("port: 80", `port: ${port}`),
      backendManifest("b", backend.port),
      routeManifest("r", [
        `{ matches: [{ path: { value: /in } }], filters: [{ type: ResponseHeaderModifier, ${edit} }], backendRefs: [${backendRef("b")}] }`,
      ]),
    );
    const args = ["--listen-address", "127.0.0.1", "--drain-delay", "0ms", "--workers", "1"];
    const proxy = await startProxy({ "all.yaml": text }, [...args, "--access-log-fields", fields]);
    const [found, missing] = [await fetch(`http://127.0.0.1:${port}/in`), await fetch(`http://127.0.0.1:${port}/none`)];
    expect(found.headers.get("x-kind")).toBe("edited");
    await waitFor(() => expect(proxy.log.filter(isRequest)).toHaveLength(2));
    const [first, second] = proxy.log.filter(isRequest);
    expect(first).toMatchObject({ status: 200, kind: "edited", type: "a/b" });
    expect(first).not.toHaveProperty("old");
    expect(second).toMatchObject({ status: 404, type: missing.headers.get("content-type") });
  });
});

describe("settings", () => {
  test("invalid ones prevent the start, and each message names its place", async () => {
    const proxy = await spawnProxy(
      {},
      ["--access-log-fields", "*;x=log.nothing", "--access-log-filter", "log.status"],
      { ACCESS_LOG_TEMPLATE: "%REQ(:path)%", ACCESS_LOG_SUCCESS_RATIO: "2", OTEL_LOGS_EXPORTER: "syslog" },
    );
    expect(await proxy.exited).not.toBe(0);
    expect(proxy.stderr()).toContain(
      '--access-log-fields: item 2: field "x": expression at column 1: unknown variable',
    );
    expect(proxy.stderr()).toContain("--access-log-filter: expression has the type int, accepted is bool");
    expect(proxy.stderr()).toContain("ACCESS_LOG_TEMPLATE: the template has no ${EXPRESSION}");
    expect(proxy.stderr()).toContain('ACCESS_LOG_SUCCESS_RATIO: "2" is not a number from 0 to 1');
  });

  test("an exporter of logs that does not exist prevents the start", async () => {
    const proxy = await spawnProxy({}, [], { OTEL_LOGS_EXPORTER: "syslog" });
    expect(await proxy.exited).not.toBe(0);
    expect(proxy.stderr()).toContain('OTEL_LOGS_EXPORTER: "syslog" is not one of otlp, none');
  });

  test("a file that cannot be opened prevents the start", async () => {
    const proxy = await spawnProxy({ "a.yaml": gatewayManifest(await freePort()) }, ["--access-log-file", "/no/such"]);
    expect(await proxy.exited).not.toBe(0);
    expect(proxy.stderr()).toContain('--access-log-file: "/no/such" cannot be opened for writing: ENOENT');
  });

  test("choose requests and fields of the lines, also of requests that no rule serves", async () => {
    const fields = 'status;path;tenant=request.headers["x-tenant"]';
    const { proxy, url } = await serve([
      ...["--workers", "1", "--access-log-fields", fields],
      ...["--access-log-success-ratio", "0", "--access-log-filter", 'log.path != "/quiet"'],
    ]);
    for (const path of ["/in", "/quiet", "/none"]) await fetch(`${url}${path}`, { headers: { "x-tenant": "acme" } });
    expect(await proxy.logged(isRequest)).toEqual({
      ...{ level: "info", time: expect.any(String) as unknown, module: "proxy::access" },
      ...{ status: 404, path: "/none", tenant: "acme", msg: "request" },
    });
    expect(proxy.log.filter(isRequest)).toHaveLength(1);
  });
});

describe("lines of a request", () => {
  test.each([
    ["those of the client, if the proxy does not export traces", {}],
    ["the trace of the client and the span of the proxy, if it does", { OTEL_TRACES_EXPORTER: "otlp" }],
  ])("have %s", async (_, env) => {
    const args = ["--workers", "1", "--log-level", "trace"];
    const { proxy, url } = await serve(args, {
      ...env,
      OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:1",
      OTEL_TRACES_EXPORTER: "none",
      ...env,
    });
    await fetch(`${url}/in`, { headers: { traceparent, "x-request-id": "r1" } });
    await proxy.logged(isRequest);
    const lines = proxy.log.filter(({ requestId }) => requestId === "r1");
    expect(lines.length).toBeGreaterThan(8);
    const ids = new Set(lines.map(({ trace_id, span_id }) => `${String(trace_id)} ${String(span_id)}`));
    expect(ids.size).toBe(1);
    const [id = ""] = ids;
    expect(id.startsWith(`${traceId} `)).toBe(true);
    expect(id.endsWith(" 00f067aa0ba902b7")).toBe(!("OTEL_TRACES_EXPORTER" in env));
  });
});

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

describe("the export by OTLP", () => {
  test("sends records with the headers of the setting, and what is queued at the shutdown", async () => {
    const receiver = await startReceiver();
    const { proxy, url } = await serve(["--workers", "1", "--access-log-stdout", "off", "--exported-logs", "access"], {
      OTEL_LOGS_EXPORTER: "otlp",
      OTEL_TRACES_EXPORTER: "none",
      OTEL_EXPORTER_OTLP_LOGS_ENDPOINT: `${receiver.url}/v1/logs`,
      OTEL_EXPORTER_OTLP_HEADERS: "authorization=Bearer%20collector-secret",
      OTEL_SERVICE_NAME: "edge",
    });
    await fetch(`${url}/in`, { headers: { traceparent } });
    proxy.kill("SIGTERM");
    await proxy.exited;
    expect(receiver.exports).toHaveLength(1);
    const [first] = receiver.exports;
    expect(first).toMatchObject({ url: "/v1/logs", headers: { authorization: "Bearer collector-secret" } });
    expect(first?.body.includes(Buffer.from(traceId, "hex"))).toBe(true);
    for (const text of ["edge", "http.response.status_code", "gatewayproxy.request"]) {
      expect(first?.body.includes(text), text).toBe(true);
    }
    expect(proxy.log.filter(isRequest)).toEqual([]);
    expect(JSON.stringify(proxy.log)).not.toContain("collector-secret");
  });

  test("is off without its exporter, whatever the endpoint is", async () => {
    const receiver = await startReceiver();
    const env = { OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url };
    const { proxy, url } = await serve(["--workers", "1"], env);
    await fetch(`${url}/in`);
    proxy.kill("SIGTERM");
    await proxy.exited;
    expect(receiver.exports.map((each) => each.url)).toEqual(["/v1/traces"]);
  });

  test("to a collector that is not there costs no request anything, and memory is bounded", async () => {
    const { proxy, url } = await serve(["--workers", "1"], {
      OTEL_LOGS_EXPORTER: "otlp",
      OTEL_TRACES_EXPORTER: "none",
      OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${await freePort()}`,
      OTEL_BLRP_SCHEDULE_DELAY: "10",
      OTEL_BLRP_MAX_QUEUE_SIZE: "8",
    });
    const statuses = await Promise.all(Array.from({ length: 50 }, async () => (await fetch(`${url}/in`)).status));
    expect(new Set(statuses)).toEqual(new Set([200]));
    const dropped = 'gateway_proxy_access_log_records_total{outcome="dropped"}';
    expect(await sampleOf(proxy, dropped)).toBeGreaterThan(0);
    proxy.kill("SIGTERM");
    expect(await proxy.exited).toBe(0);
    expect(proxy.log.filter(isRequest)).toHaveLength(50);
  });
});

describeWith(["otelcol"], "the export to a real collector", ({ otelcol }) => {
  test.each(["http/protobuf", "grpc"] as const)("has trace, fields and body, by %s", async (protocol) => {
    const collector = await startCollector(otelcol);
    const fields = "status; path; cached=false; limits=log.deniedBy";
    const settings = ["--workers", "1", "--exported-logs", "access", "--access-log-fields", fields];
    const { url } = await serve(
      [...settings, "--access-log-template", "${log.method} ${log.path}", "--access-log-stdout", "off"],
      {
        OTEL_LOGS_EXPORTER: "otlp",
        OTEL_TRACES_EXPORTER: "none",
        OTEL_EXPORTER_OTLP_ENDPOINT: protocol === "grpc" ? collector.grpc : collector.http,
        OTEL_EXPORTER_OTLP_PROTOCOL: protocol,
        OTEL_BLRP_SCHEDULE_DELAY: "20",
      },
    );
    await fetch(`${url}/in?token=secret`, { headers: { traceparent } });
    await waitFor(async () => expect(await collector.logRecords()).toHaveLength(1), {
      timeout: 30_000,
      interval: 100,
    });
    const [record] = await collector.logRecords();
    expect(record).toMatchObject({
      ...{ severityText: "INFO", eventName: "gatewayproxy.request", body: { stringValue: "GET /in" } },
      ...{ traceId, spanId: "00f067aa0ba902b7" },
    });
    const attributes = Object.fromEntries((record?.attributes ?? []).map(({ key, value }) => [key, value]));
    expect(attributes).toEqual({
      "http.response.status_code": { intValue: "200" },
      "url.path": { stringValue: "/in" },
      cached: { boolValue: false },
    });
  });
});
