import { renderFamilies } from "@gatewayproxy/runtime/exposition";
import { familiesOf } from "@gatewayproxy/runtime/metric-families";
import { SeriesBound } from "@gatewayproxy/runtime/metrics";
import { renderProtobuf } from "@gatewayproxy/runtime/protobuf-exposition";
import { describe, expect, test } from "vitest";
import { metricTableOf } from "./metric-table.ts";
import { ProcessMetrics } from "./process-metrics.ts";
import { RequestMetrics } from "./request-metrics.ts";
import { limitOf, recordOf } from "./testing/records.ts";

const bind = "0.0.0.0:80";
const metricTable = metricTableOf(false);

/** The samples of one metric, without its prefix, buckets and comments. */
async function samplesOf(metrics: RequestMetrics | ProcessMetrics, name: string): Promise<string[]> {
  const text = await renderFamilies(familiesOf(metricTable, [metrics.snapshot()]));
  const lines = text
    .split("\n")
    .filter((line) => line.startsWith(`gateway_proxy_${name}`) && !line.includes("_bucket"));
  return lines.map((line) => line.slice("gateway_proxy_".length));
}

function afterEnding(...records: readonly Parameters<typeof recordOf>[0][]): RequestMetrics {
  const metrics = new RequestMetrics();
  for (const record of records) {
    metrics.requestStarted(bind);
    metrics.requestEnded(bind, recordOf(record));
  }
  return metrics;
}

test("a scrape of 10,000 routes with a backend each has at most 2 MB", async () => {
  const records = Array.from({ length: 10_000 }, (_, n) => {
    const name = `tenant-${n % 50}/application-${n}`;
    return { route: name, backend: `Service/${name}:8080`, endpoint: `10.0.${n >> 8}.${n & 255}:8080` };
  });
  const metrics = afterEnding(...records);
  metrics.keepNative();
  for (const record of records) metrics.requestEnded(bind, recordOf(record));
  const families = familiesOf(metricTable, [metrics.snapshot()], new SeriesBound(5_000));
  expect(renderProtobuf(families).length).toBeLessThan(1_500_000);
  const text = await renderFamilies(families);
  expect(text.length).toBeLessThan(2_000_000);
  expect(text.match(/^gateway_proxy_http_requests_total\{/gm)).toHaveLength(5_001);
  expect(text).toContain('gateway_proxy_http_request_duration_seconds_count{listener="default/gateway/http"} 20000');
}, 60_000);

describe("RequestMetrics", () => {
  test("counts requests by route, backend and outcome", async () => {
    const metrics = afterEnding(
      {},
      {},
      { status: 429, reason: "RateLimited", backend: undefined, endpoint: undefined },
    );
    const where = 'listener="default/gateway/http",route="default/shop"';
    expect(await samplesOf(metrics, "http_requests_total")).toEqual([
      `http_requests_total{${where},backend="Service/default/shop:80",method="GET",code="200",reason=""} 2`,
      `http_requests_total{${where},backend="",method="GET",code="429",reason="RateLimited"} 1`,
    ]);
    expect(await samplesOf(metrics, "http_request_duration")).toContain(
      'http_request_duration_seconds_count{listener="default/gateway/http"} 3',
    );
  });

  test("counts what a request does at several providers", async () => {
    const [chat, openai, azure] = ["chat", "openai", "azure"].map((name) => `Backend/default/${name}`);
    const failovers = [{ provider: openai ?? "", cause: "status 429" }];
    const usage = { input: 1, output: 0, total: 1, estimated: false };
    const metrics = afterEnding({ backend: chat, provider: azure, failovers, attempts: 2, usage });
    expect(await samplesOf(metrics, "provider_failovers_total")).toEqual([
      `provider_failovers_total{backend="${chat}",provider="${openai}",cause="status 429"} 1`,
    ]);
    expect(await samplesOf(metrics, "upstream_requests_total")).toEqual([
      `upstream_requests_total{backend="${azure}",endpoint="10.0.0.1:8080",code="200"} 1`,
    ]);
    expect((await samplesOf(metrics, "llm_tokens_total"))[0]).toContain(`backend="${azure}"`);
    expect(await samplesOf(metrics, "upstream_retries_total")).toEqual([]);
  });

  test("counts retries, and the outcomes of mirrored copies", async () => {
    const metrics = afterEnding(
      { attempts: 3 },
      { attempts: 1 },
      { attempts: 2 },
      { attempts: 0, endpoint: undefined },
    );
    expect(await samplesOf(metrics, "upstream_retries_total")).toEqual([
      'upstream_retries_total{backend="Service/default/shop:80"} 3',
    ]);
    metrics.mirrored("Service/default/copy:80", "sent");
    metrics.mirrored("Service/default/copy:80", "skipped");
    expect(await samplesOf(metrics, "mirrored_requests_total")).toEqual([
      'mirrored_requests_total{backend="Service/default/copy:80",outcome="sent"} 1',
      'mirrored_requests_total{backend="Service/default/copy:80",outcome="skipped"} 1',
    ]);
  });

  test("does not create series for unknown methods", async () => {
    const metrics = afterEnding({ method: "X-1" }, { method: "X-2" });
    expect(await samplesOf(metrics, "http_requests_total")).toEqual([
      expect.stringMatching(/method="other",code="200",reason=""} 2$/),
    ]);
  });

  test("counts open connections and requests in progress", async () => {
    const metrics = afterEnding({});
    metrics.connectionOpened(bind);
    metrics.connectionOpened(bind);
    metrics.connectionClosed(bind);
    metrics.connectionShed("idle");
    metrics.internalError("timer");
    expect(await samplesOf(metrics, "faults_total")).toEqual(['faults_total{place="timer"} 1']);
    metrics.requestStarted(bind);
    expect(await samplesOf(metrics, "downstream_connections")).toEqual([
      'downstream_connections_total{bind="0.0.0.0:80"} 2',
      'downstream_connections_active{bind="0.0.0.0:80"} 1',
      'downstream_connections_shed_total{reason="idle"} 1',
    ]);
    expect(await samplesOf(metrics, "http_requests_active")).toEqual(['http_requests_active{bind="0.0.0.0:80"} 1']);
  });

  test("distinguishes responses of an endpoint from attempts without one", async () => {
    const unanswered = { status: 503, reason: "UpstreamConnectFailure", upstreamMs: undefined } as const;
    const metrics = afterEnding({}, unanswered, { endpoint: undefined, status: 404 });
    const who = 'backend="Service/default/shop:80",endpoint="10.0.0.1:8080"';
    expect(await samplesOf(metrics, "upstream_requests_total")).toEqual([
      `upstream_requests_total{${who},code="200"} 1`,
      `upstream_requests_total{${who},code="none"} 1`,
    ]);
    expect(await samplesOf(metrics, "upstream_connect")).toEqual([`upstream_connect_failures_total{${who}} 1`]);
    expect(await samplesOf(metrics, "upstream_response_seconds_count")).toEqual([
      'upstream_response_seconds_count{backend="Service/default/shop:80"} 1',
    ]);
  });

  test("counts the decisions of each entry, with a 0 for those it has not made", async () => {
    const limit = limitOf({ counts: "tokens", entry: 3 });
    const metrics = afterEnding(
      { decisions: [{ limit, outcome: "allowed" }] },
      { decisions: [{ limit, outcome: "shadowDenied" }] },
      // The same entry in the next generation of the configuration.
      { decisions: [{ limit: { ...limit }, outcome: "allowed" }] },
    );
    const labels = 'policy="default/limits",entry="3",target="HTTPRoute/default/shop",counts="tokens"';
    expect(await samplesOf(metrics, "limit_decisions")).toEqual([
      `limit_decisions_total{${labels},decision="allowed"} 2`,
      `limit_decisions_total{${labels},decision="denied"} 0`,
      `limit_decisions_total{${labels},decision="shadow_denied"} 1`,
    ]);
  });

  test("splits tokens by type so that the types add up to the total", async () => {
    const metrics = afterEnding(
      { usage: { input: 5, output: 7, total: 15, model: "m", estimated: false } },
      { usage: { total: 4, estimated: true } },
    );
    const labels = 'route="default/shop",backend="Service/default/shop:80"';
    expect(await samplesOf(metrics, "llm_")).toEqual([
      `llm_tokens_total{${labels},model="m",type="input"} 5`,
      `llm_tokens_total{${labels},model="m",type="output"} 7`,
      `llm_tokens_total{${labels},model="m",type="other"} 3`,
      `llm_tokens_total{${labels},model="",type="other"} 4`,
      `llm_usage_estimated_total{${labels}} 1`,
    ]);
  });

  test("counts the parts of tokens in series of their own, and removes them with their model", async () => {
    const details = { cachedInputTokens: 3, cacheCreationTokens: 1, reasoningTokens: 2 };
    const used = (model: string, startMs: number) => ({
      startMs,
      usage: { input: 5, output: 7, total: 12, ...details, model, estimated: false },
    });
    const labels = 'route="default/shop",backend="Service/default/shop:80",model="m"';
    expect(await samplesOf(afterEnding(used("m", 0)), "llm_token_details")).toEqual([
      `llm_token_details_total{${labels},detail="cached_input"} 3`,
      `llm_token_details_total{${labels},detail="cache_creation"} 1`,
      `llm_token_details_total{${labels},detail="reasoning"} 2`,
    ]);
    const models = Array.from({ length: 100 }, (_, n) => used(`m${n}`, 0));
    const samples = (await samplesOf(afterEnding(...models, used("late", 600_000)), "llm_token_details")).join("\n");
    expect(samples).toMatch(/model="late"/);
    expect(samples).not.toMatch(/model="m0"/);
  });

  test("gives the first 100 models a series each and the rest one", async () => {
    const usages = Array.from({ length: 150 }, (_, n) => ({
      usage: { input: 1, total: 1, model: `m${n}`, estimated: false },
    }));
    const samples = await samplesOf(afterEnding(...usages), "llm_tokens_total");
    expect(samples).toHaveLength(101);
    expect(samples.at(-1)).toMatch(/model="other",type="input"} 50$/);
  });

  test("keeps the series of a model in use, and gives those of an idle one to another", async () => {
    const used = (model: string, startMs: number) => ({
      startMs,
      usage: { input: 1, total: 1, model, estimated: false },
    });
    const invented = Array.from({ length: 150 }, (_, n) => used(`m${n}`, 1_000));
    const metrics = [used("real", 0), ...invented, used("real", 1_000), used("early", 600_999), used("late", 601_000)];
    const samples = (await samplesOf(afterEnding(...metrics), "llm_tokens_total")).join("\n");
    expect(samples).toMatch(/model="real",type="input"} 2$/m);
    expect(samples).toMatch(/model="late",type="input"} 1$/m);
    expect(samples).not.toMatch(/model="m0"/);
    expect(samples).toMatch(/model="m1"/);
    // 51 of the invented ones, and the early one.
    expect(samples).toMatch(/model="other",type="input"} 52$/m);
  });

  test("counts the requests for listed models by both names, and for no others", async () => {
    const metrics = new RequestMetrics();
    const names = { clientModel: "gpt-4", requestModel: "gpt-4o-2024-11-20" };
    metrics.requestEnded("bind", recordOf({ ...names, isListedModel: true }));
    metrics.requestEnded("bind", recordOf({ ...names, isListedModel: false }));
    expect(await samplesOf(metrics, "llm_model_requests")).toEqual([
      'llm_model_requests_total{route="default/shop",backend="Service/default/shop:80",client_model="gpt-4",model="gpt-4o-2024-11-20"} 1',
    ]);
  });

  test("counts responses that added nothing to a limit, by reason", async () => {
    const metrics = afterEnding({ usageUnread: "malformed" });
    expect(await samplesOf(metrics, "llm_usage_uncounted")).toEqual([
      'llm_usage_uncounted_total{route="default/shop",backend="Service/default/shop:80",reason="malformed"} 1',
    ]);
  });

  test("counts dropped log lines", async () => {
    const metrics = new RequestMetrics();
    metrics.logLinesDropped(1);
    expect(await samplesOf(metrics, "access_log")).toEqual(["access_log_lines_dropped_total 1"]);
  });
});

test("the main thread counts configurations, counters and workers", async () => {
  const metrics = new ProcessMetrics();
  metrics.configServes(3);
  metrics.configAccepted(1_700_000_000_500);
  metrics.configRejected();
  metrics.watchesFailing(4);
  metrics.workersServing(2);
  metrics.workerRestarted();
  metrics.countersEvicted(7);
  metrics.countersReset(2);
  metrics.countersReset(3);
  expect(await samplesOf(metrics, "limit_counters")).toEqual([
    "limit_counters_evicted_total 7",
    "limit_counters_reset_total 5",
  ]);
  expect(await samplesOf(metrics, "config")).toEqual([
    "config_generation 3",
    "config_rejected_total 1",
    "config_last_reload_success_timestamp_seconds 1700000000.5",
    "config_watches_failing 4",
  ]);
  expect(await samplesOf(metrics, "worker")).toEqual(["workers 2", "worker_restarts_total 1"]);
});

test("ProcessMetrics shows the providers of the configuration, and no others", async () => {
  const metrics = new ProcessMetrics();
  const figures = { outOfQuotaForMs: 0, failingForMs: 0, consecutiveFailures: 0 };
  metrics.providers(
    new Map([
      ["Backend/default/a", { ...figures, outOfQuotaForMs: 5 }],
      ["Backend/default/b", { ...figures, failingForMs: 5 }],
    ]),
  );
  expect(await samplesOf(metrics, "provider_")).toEqual([
    'provider_out_of_quota{provider="Backend/default/a"} 1',
    'provider_out_of_quota{provider="Backend/default/b"} 0',
    'provider_failing{provider="Backend/default/a"} 0',
    'provider_failing{provider="Backend/default/b"} 1',
  ]);
  metrics.providers(new Map([["Backend/default/b", figures]]));
  expect(await samplesOf(metrics, "provider_")).toEqual([
    'provider_out_of_quota{provider="Backend/default/b"} 0',
    'provider_failing{provider="Backend/default/b"} 0',
  ]);
});
