/** A real Jaeger, which keeps traces in memory. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { onTestFinished } from "vitest";
import { freePort } from "./free-port.ts";
import type { TracedSpan } from "./traced-programs.ts";

export interface Jaeger {
  /** The URL for each protocol of OTLP. */
  readonly http: string;
  readonly grpc: string;
  /** The URL of its page and of its query API. */
  readonly url: string;
  /** The services that have sent spans. */
  services(): Promise<readonly string[]>;
  /** The spans of a trace so far. */
  trace(traceId: string): Promise<readonly TracedSpan[]>;
}

/** A trace in the query API. */
export interface QueriedTrace {
  readonly traceID: string;
  readonly spans: readonly QueriedSpan[];
  readonly processes: Readonly<Record<string, { readonly serviceName: string }>>;
}

interface QueriedSpan {
  readonly traceID: string;
  readonly spanID: string;
  readonly operationName: string;
  readonly references: readonly { readonly refType: string; readonly traceID: string; readonly spanID: string }[];
  /** Microseconds since the epoch. */
  readonly startTime: number;
  readonly processID: string;
}

/** Starts the Jaeger of `program` until the test ends. */
export async function startJaeger(program: string): Promise<Jaeger> {
  const [http, grpc, query] = [await freePort(), await freePort(), await freePort()];
  const others = [
    "admin.http.host-port",
    "collector.grpc-server.host-port",
    "collector.http-server.host-port",
    "http-server.host-port",
    "processor.jaeger-binary.server-host-port",
    "processor.jaeger-compact.server-host-port",
    "processor.zipkin-compact.server-host-port",
    "query.grpc-server.host-port",
  ];
  const options = await Promise.all(others.map(async (name) => `--${name}=127.0.0.1:${await freePort()}`));
  const child = spawn(
    program,
    [
      ...options,
      `--collector.otlp.http.host-port=127.0.0.1:${http}`,
      `--collector.otlp.grpc.host-port=127.0.0.1:${grpc}`,
      `--query.http-server.host-port=127.0.0.1:${query}`,
    ],
    { stdio: ["ignore", "pipe", "pipe"], env: { ...process.env, COLLECTOR_OTLP_ENABLED: "true" } },
  );
  const output: string[] = [];
  const ready = Promise.withResolvers<undefined>();
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (chunk: Buffer) => {
      output.push(chunk.toString());
      if (output.join("").includes('"status":"ready"')) ready.resolve(undefined);
    });
  }
  child.on("exit", () => ready.reject(new Error(`Jaeger ended: ${output.join("")}`)));
  onTestFinished(async () => {
    if (child.exitCode !== null) return;
    const ended = once(child, "exit");
    child.kill("SIGTERM");
    await ended;
  });
  await ready.promise;
  const url = `http://127.0.0.1:${query}`;
  return {
    http: `http://127.0.0.1:${http}`,
    grpc: `http://127.0.0.1:${grpc}`,
    url,
    services: () => queried<readonly string[]>(`${url}/api/services`),
    trace: async (traceId) => (await queried<readonly QueriedTrace[]>(`${url}/api/traces/${traceId}`)).flatMap(spansOf),
  };
}

/** The data of a response; empty if Jaeger does not know the trace. */
async function queried<Data extends readonly unknown[]>(url: string): Promise<Data | readonly []> {
  const { data } = (await (await fetch(url)).json()) as { readonly data: Data | null };
  return data ?? [];
}

/** Returns the spans of a trace of the query API. */
export function spansOf({ spans, processes }: QueriedTrace): readonly TracedSpan[] {
  return spans.map(({ traceID, spanID, operationName, references, startTime, processID }) => ({
    service: processes[processID]?.serviceName ?? "",
    name: operationName,
    spanId: spanID,
    parentSpanId: references.find((reference) => reference.refType === "CHILD_OF" && reference.traceID === traceID)
      ?.spanID,
    start: BigInt(startTime),
  }));
}
