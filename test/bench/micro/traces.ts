/**
 * Measures what traces add to a request in the thread that serves it, without the network: `npm exec -- node
 * --expose-gc --min-semi-space-size=256 --max-semi-space-size=256 test/bench/micro/traces.ts`. Prints the time for each
 * request, of the fastest of many rounds, and the bytes that it allocates. Other processes lengthen rounds, but not the
 * fastest one, so both are alike in each run.
 */
import { setImmediate as nextTurn } from "node:timers/promises";
import { getHeapStatistics } from "node:v8";
import { systemClock } from "@gatewayproxy/runtime/clock";
import { Propagation } from "@gatewayproxy/runtime/propagation";
import { samplerOf } from "@gatewayproxy/runtime/sampling";
import { RequestTracing } from "../../../proxy/src/telemetry/spans/request-tracing.ts";
import type { RequestRecord } from "../../../proxy/src/telemetry/request-record.ts";
import { ExportQueue } from "../../../runtime/src/otlp/export-queue.ts";
import { messagesOfScope } from "../../../runtime/src/otlp/otlp-fields.ts";
import { writeSpan } from "../../../runtime/src/tracing/otlp-spans.ts";

const rounds = 400;
const requestsOfRound = 2_000;

const plain = [
  ...["host", "a.test", "user-agent", "curl/7.88.1", "accept", "*/*", "content-type", "application/json"],
  ...["accept-encoding", "gzip", "x-tenant", "acme", "content-length", "81", "cache-control", "no-cache"],
];
const traced = [...plain, "traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"];
const sampled = [...plain, "traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"];

const record = {
  ...{ method: "POST", scheme: "http", authority: "a.test:8080", path: "/v1/chat/completions?x=1", httpVersion: "1.1" },
  ...{ sourceAddress: "192.0.2.7", userAgent: "curl/7.88.1", status: 200, durationMs: 2.5, upstreamMs: 2, attempts: 1 },
  ...{ requestId: "75e85bf6-6832-486d-b8a9-54a1d26d9215", requestBytes: 81, responseBytes: 778, failovers: [] },
  ...{ listener: "default/web/http", route: "default/chat", rule: "default/chat/0", backend: "Backend/default/llm" },
  ...{ endpoint: "192.0.2.9:8089", decisions: [], globalDecisions: [], reason: undefined, usage: undefined },
} as unknown as RequestRecord;

/** Takes everything at once. */
const sender = { send: () => Promise.resolve(), close: () => undefined };
const observer = { ended: () => undefined, problem: (message: string) => console.error(message) };
const batch = { scheduledDelayMs: 5_000, exportTimeoutMs: 1_000, maxQueueSize: 100_000, maxExportBatchSize: 512 };

function tracingOf(ratio: number): RequestTracing {
  const resource = { "service.name": "gateway-proxy" };
  const messageOf = messagesOfScope({ resource, scope: { name: "gateway-proxy", version: "1" } });
  const sink = new ExportQueue({ batch, items: { write: writeSpan, messageOf }, sender, clock: systemClock, observer });
  const sample = samplerOf({ isParentBased: true, ratio }, false, Math.random);
  const propagation = new Propagation(["tracecontext", "baggage"]);
  return new RequestTracing(systemClock, { propagation, sample, sink, semconvOptIn: [] }, "none", 1);
}

/** What a request does without traces: its headers are copied for the backend. */
function withoutTraces(rawHeaders: readonly string[]): number {
  return [...rawHeaders].length;
}

/** What a request does with traces, with one attempt. */
function withTraces(tracing: RequestTracing, rawHeaders: readonly string[]): number {
  const span = tracing.begin(rawHeaders, systemClock.monotonicMs());
  const headers = span.withContext([...rawHeaders]);
  let sent: readonly string[] = headers;
  if (span.keepsCalls) {
    const attempt = span.startAttempt({
      startMs: systemClock.monotonicMs(),
      backend: "Backend/default/llm",
      host: "192.0.2.9",
      port: 8_089,
      scheme: "http",
      method: "POST",
      path: "/v1/chat/completions?x=1",
      ai: undefined,
    });
    sent = span.withParent(attempt, headers);
    attempt.status = 200;
    span.endCall(attempt, systemClock.monotonicMs());
  }
  tracing.end(span, record);
  return sent.length;
}

async function measure(what: string, run: () => number): Promise<void> {
  let sum = 0;
  const round = (): number => {
    const startNs = process.hrtime.bigint();
    for (let request = 0; request < requestsOfRound; request++) sum += run();
    return Number(process.hrtime.bigint() - startNs) / requestsOfRound;
  };
  const times: number[] = [];
  for (let at = 0; at < rounds; at++) {
    times.push(round());
    // The queue sends its batches.
    await nextTurn();
  }
  globalThis.gc?.();
  const before = getHeapStatistics().used_heap_size;
  round();
  const bytes = (getHeapStatistics().used_heap_size - before) / requestsOfRound;
  const ns = Math.min(...times);
  console.log(
    `${what.padEnd(44)} ${ns.toFixed(0).padStart(6)} ns ${bytes.toFixed(0).padStart(6)} bytes ${sum > 0 ? "" : "?"}`,
  );
}

const [off, one, all] = [tracingOf(0), tracingOf(0.01), tracingOf(1)];
await measure("without traces", () => withoutTraces(plain));
await measure("not sampled, without a caller's trace", () => withTraces(off, plain));
await measure("1 %, without a caller's trace", () => withTraces(one, plain));
await measure("not sampled by the caller", () => withTraces(all, traced));
await measure("sampled by the caller", () => withTraces(off, sampled));
await measure("sampled, without a caller's trace", () => withTraces(all, plain));
process.exit();
