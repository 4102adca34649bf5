/** A real OpenTelemetry Collector, which writes what it receives to a file. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { freePort } from "./free-port.ts";

/** A span as the collector has received it (OTLP/JSON), with the name of its service. */
export interface ReceivedSpan {
  readonly service: string;
  readonly name: string;
  /** 2 is server, 3 is client. */
  readonly kind: number;
  readonly traceId: string;
  readonly spanId: string;
  /** Empty for the first span of a trace. */
  readonly parentSpanId?: string;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
}

/** A metric as the collector has received it, with the name of its service. */
export interface ReceivedMetric {
  readonly service: string;
  readonly name: string;
  readonly unit?: string;
  readonly gauge?: { readonly dataPoints: readonly ReceivedPoint[] };
  readonly sum?: ReceivedData & { readonly isMonotonic: boolean };
  readonly histogram?: ReceivedData;
  readonly exponentialHistogram?: ReceivedData;
}

interface ReceivedData {
  readonly dataPoints: readonly ReceivedPoint[];
  /** 1 is delta, 2 is cumulative. */
  readonly aggregationTemporality: number;
}

/** A point of any kind. Integers are texts, as in all JSON of protobuf. */
export interface ReceivedPoint {
  readonly attributes?: readonly Attribute[];
  readonly startTimeUnixNano?: string;
  readonly timeUnixNano: string;
  readonly asDouble?: number;
  readonly count?: string;
  readonly sum?: number;
  readonly bucketCounts?: readonly string[];
  readonly explicitBounds?: readonly number[];
  readonly zeroCount?: string;
  readonly positive?: { readonly bucketCounts?: readonly string[] };
  readonly exemplars?: readonly { readonly traceId: string; readonly spanId: string; readonly asDouble: number }[];
}

interface Attribute {
  readonly key: string;
  readonly value: { readonly stringValue?: string };
}

/** A log record as the collector has received it (OTLP/JSON), with the names of its service and scope. */
export interface ReceivedLogRecord {
  readonly service: string;
  readonly scope: string;
  readonly timeUnixNano: string;
  readonly severityText: string;
  readonly severityNumber: number;
  readonly eventName?: string;
  readonly body: { readonly stringValue?: string };
  readonly traceId?: string;
  readonly spanId?: string;
  readonly attributes: readonly { readonly key: string; readonly value: Readonly<Record<string, unknown>> }[];
}

export interface Collector {
  /** The URL for each protocol of OTLP. */
  readonly http: string;
  readonly grpc: string;
  /** The spans so far. */
  spans(): Promise<readonly ReceivedSpan[]>;
  /** The metrics of each export so far, the last export last. */
  metrics(): Promise<readonly ReceivedMetric[]>;
  /** The log records so far. */
  logRecords(): Promise<readonly ReceivedLogRecord[]>;
}

interface Resource {
  readonly attributes: readonly Attribute[];
}

interface Line {
  readonly resourceSpans?: readonly {
    readonly resource: Resource;
    readonly scopeSpans: readonly { readonly spans: readonly Omit<ReceivedSpan, "service">[] }[];
  }[];
  readonly resourceMetrics?: readonly {
    readonly resource: Resource;
    readonly scopeMetrics: readonly { readonly metrics: readonly Omit<ReceivedMetric, "service">[] }[];
  }[];
  readonly resourceLogs?: readonly {
    readonly resource: Resource;
    readonly scopeLogs: readonly {
      readonly scope: { readonly name: string };
      readonly logRecords: readonly Omit<ReceivedLogRecord, "service" | "scope">[];
    }[];
  }[];
}

/** Starts the collector of `program` until the test ends. */
export async function startCollector(program: string): Promise<Collector> {
  const folder = await mkdtemp(join(tmpdir(), "gatewayproxy-collector-"));
  const [http, grpc] = [await freePort(), await freePort()];
  const [spans, metrics, logs] = ["spans", "metrics", "logs"].map((name) => join(folder, `${name}.jsonl`)) as [
    string,
    string,
    string,
  ];
  const config = join(folder, "collector.yaml");
  await writeFile(
    config,
    `
receivers:
  otlp:
    protocols:
      http: { endpoint: "127.0.0.1:${http}" }
      grpc: { endpoint: "127.0.0.1:${grpc}" }
exporters:
  file/spans: { path: "${spans}", flush_interval: 100ms }
  file/metrics: { path: "${metrics}", flush_interval: 100ms }
  file/logs: { path: "${logs}", flush_interval: 100ms }
service:
  telemetry: { metrics: { level: none } }
  pipelines:
    traces: { receivers: [otlp], exporters: [file/spans] }
    metrics: { receivers: [otlp], exporters: [file/metrics] }
    logs: { receivers: [otlp], exporters: [file/logs] }
`,
  );
  const child = spawn(program, ["--config", config], { stdio: ["ignore", "ignore", "pipe"] });
  const output: string[] = [];
  const ready = Promise.withResolvers<undefined>();
  child.stderr.on("data", (chunk: Buffer) => {
    output.push(chunk.toString());
    if (output.join("").includes("Everything is ready")) ready.resolve(undefined);
  });
  child.on("exit", () => ready.reject(new Error(`the collector ended: ${output.join("")}`)));
  onTestFinished(async () => {
    if (child.exitCode === null) {
      const ended = once(child, "exit");
      child.kill("SIGTERM");
      await ended;
    }
    await rm(folder, { recursive: true });
  });
  await ready.promise;
  return {
    http: `http://127.0.0.1:${http}`,
    grpc: `http://127.0.0.1:${grpc}`,
    spans: async () => (await linesOf(spans)).flatMap(spansOf),
    metrics: async () => (await linesOf(metrics)).flatMap(metricsOf),
    logRecords: async () => (await linesOf(logs)).flatMap(logRecordsOf),
  };
}

async function linesOf(file: string): Promise<readonly Line[]> {
  const text = await readFile(file, "utf8").catch(() => "");
  // The last line may be incomplete.
  return text
    .split("\n")
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Line);
}

function spansOf({ resourceSpans = [] }: Line): readonly ReceivedSpan[] {
  return resourceSpans.flatMap(({ resource, scopeSpans }) => {
    const service = serviceOf(resource);
    return scopeSpans.flatMap(({ spans }) => spans.map((span) => ({ ...span, service })));
  });
}

function metricsOf({ resourceMetrics = [] }: Line): readonly ReceivedMetric[] {
  return resourceMetrics.flatMap(({ resource, scopeMetrics }) => {
    const service = serviceOf(resource);
    return scopeMetrics.flatMap(({ metrics }) => metrics.map((metric) => ({ ...metric, service })));
  });
}

function logRecordsOf({ resourceLogs = [] }: Line): readonly ReceivedLogRecord[] {
  return resourceLogs.flatMap(({ resource, scopeLogs }) => {
    const service = serviceOf(resource);
    return scopeLogs.flatMap(({ scope, logRecords }) =>
      logRecords.map((record) => ({ ...record, service, scope: scope.name })),
    );
  });
}

function serviceOf({ attributes }: Resource): string {
  return attributes.find(({ key }) => key === "service.name")?.value.stringValue ?? "";
}
