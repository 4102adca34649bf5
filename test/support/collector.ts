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
  readonly traceId: string;
  readonly spanId: string;
  /** Empty for the first span of a trace. */
  readonly parentSpanId?: string;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
}

/** A log record as the collector has received it (OTLP/JSON). */
export interface ReceivedLogRecord {
  readonly timeUnixNano: string;
  readonly severityText: string;
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
  /** The log records so far. */
  logRecords(): Promise<readonly ReceivedLogRecord[]>;
}

interface Line {
  readonly resourceSpans?: readonly {
    readonly resource: { readonly attributes: readonly { key: string; value: { stringValue?: string } }[] };
    readonly scopeSpans: readonly { readonly spans: readonly Omit<ReceivedSpan, "service">[] }[];
  }[];
  readonly resourceLogs?: readonly {
    readonly scopeLogs: readonly { readonly logRecords: readonly ReceivedLogRecord[] }[];
  }[];
}

/** Starts the collector of `program` until the test ends. */
export async function startCollector(program: string): Promise<Collector> {
  const folder = await mkdtemp(join(tmpdir(), "gatewayproxy-collector-"));
  const [http, grpc] = [await freePort(), await freePort()];
  const file = join(folder, "spans.jsonl");
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
  file: { path: "${file}", flush_interval: 100ms }
service:
  telemetry: { metrics: { level: none } }
  pipelines:
    traces: { receivers: [otlp], exporters: [file] }
    logs: { receivers: [otlp], exporters: [file] }
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
  const received = async (): Promise<readonly Line[]> => {
    const text = await readFile(file, "utf8").catch(() => "");
    // The last line may be incomplete.
    return text
      .split("\n")
      .slice(0, -1)
      .map((line) => JSON.parse(line) as Line);
  };
  return {
    http: `http://127.0.0.1:${http}`,
    grpc: `http://127.0.0.1:${grpc}`,
    spans: async () => (await received()).flatMap(spansOf),
    logRecords: async () =>
      (await received()).flatMap(({ resourceLogs = [] }) =>
        resourceLogs.flatMap(({ scopeLogs }) => scopeLogs.flatMap(({ logRecords }) => logRecords)),
      ),
  };
}

function spansOf({ resourceSpans = [] }: Line): readonly ReceivedSpan[] {
  return resourceSpans.flatMap(({ resource, scopeSpans }) => {
    const service = resource.attributes.find(({ key }) => key === "service.name")?.value.stringValue ?? "";
    return scopeSpans.flatMap(({ spans }) => spans.map((span) => ({ ...span, service })));
  });
}
