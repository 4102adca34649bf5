/**
 * The values `telemetry` of the chart: a real Jaeger in the cluster gets whole traces of the proxies and the rate limit
 * service.
 */
import { newSpanId, newTraceId } from "@gatewayproxy/runtime/ids";
import { renderTraceparent } from "@gatewayproxy/runtime/trace-context";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type QueriedTrace, spansOf } from "../support/jaeger.ts";
import { treeOf } from "../support/traced-programs.ts";
import { changeChartValues } from "./support/chart-values.ts";
import { send } from "./support/client.ts";
import { apply, createNamespace, eventually, kubectl, systemNamespace, tryKubectl } from "./support/cluster.ts";
import { gateway, grantService, llm, policy, route, service } from "./support/manifests.ts";
import { program, rolledOut } from "./support/program.ts";

/**
 * The version is that of scripts/install-test-programs.sh, and without a registry the image is made of that program.
 */
const image = process.env["JAEGER_IMAGE"] ?? "docker.io/jaegertracing/all-in-one:1.45.0";

const namespace = "e2e-telemetry";
const [queryPort, otlpPort] = [16_686, 4_318];
const created = new AsyncDisposableStack();

beforeAll(async () => {
  created.use(await createNamespace(namespace));
  const args = ["--collector.otlp.enabled=true", `--collector.otlp.http.host-port=:${otlpPort}`];
  await apply(namespace, ...program({ name: "jaeger", image, port: queryPort, morePorts: [otlpPort], args }));
  await rolledOut(namespace, "jaeger");
  const traces = `telemetry.traces.endpoint=http://jaeger.${namespace}.svc.cluster.local:${otlpPort}`;
  created.use(await changeChartValues(["--set", `${traces},telemetry.traces.ratio=1`]));
  const global = {
    backendRef: service,
    domain: "team",
    // The machine may be busy, and the speed of the service is not the subject.
    timeout: "1s",
    descriptors: [{ entries: [{ name: "user", expression: 'request.headers["x-user"]' }] }],
  };
  await apply(systemNamespace, grantService(namespace));
  await apply(namespace, llm, ...gateway("traced", { replicas: 1 }), route("all", "traced"));
  await apply(namespace, policy("shared", { kind: "HTTPRoute", name: "all" }, { global }));
  await kubectl(["-n", namespace, "wait", "gateway/traced", "--for=condition=Programmed", "--timeout=150s"]);
}, 600_000);

afterAll(async () => {
  await kubectl(["-n", systemNamespace, "delete", "referencegrant", namespace, "--ignore-not-found"]);
  await created.disposeAsync();
}, 300_000);

/** The spans of a trace that Jaeger has, below the span of the client, which is not exported. */
async function exportedTree(traceId: string, clientSpanId: string): Promise<readonly unknown[]> {
  const path = `/api/v1/namespaces/${namespace}/services/jaeger:${queryPort}/proxy/api/traces/${traceId}`;
  // Jaeger has status 404 for a trace of which it has no span yet.
  const { code, stdout } = await tryKubectl(["get", "--raw", path]);
  if (code !== 0) return [];
  const { data } = JSON.parse(stdout) as { readonly data: readonly QueriedTrace[] };
  return treeOf(data.flatMap(spansOf), clientSpanId);
}

test("a trace that begins in a client crosses the proxy, the rate limit service and Redis", async () => {
  const call = "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
  const expected = [
    [
      "gateway-proxy: GET /",
      [`gateway-proxy: ${call}`, [`RateLimit: ${call}`, ["RateLimit: count redis"]]],
      ["gateway-proxy: GET"],
    ],
  ];
  const [traceId, spanId] = [newTraceId(), newSpanId()];
  const headers = { traceparent: renderTraceparent(traceId, spanId, true), "x-user": `${namespace}-${process.pid}` };
  // A Gateway is Programmed some time before its policy is in force at each proxy.
  await eventually(
    "the limit of the service is in force",
    async () => {
      const { status, headers: received } = await send({ path: "/v1/models", headers: { "x-user": traceId } });
      return status === 200 && "x-ratelimit-limit" in received ? true : undefined;
    },
    { timeoutMs: 120_000 },
  );
  expect(await send({ path: "/v1/models", headers })).toMatchObject({ status: 200 });
  const tree = await eventually(
    "Jaeger has the spans of both programs",
    async () => {
      const found = await exportedTree(traceId, spanId);
      return JSON.stringify(found).includes("count redis") ? found : undefined;
    },
    { timeoutMs: 60_000, everyMs: 500 },
  );
  expect(tree).toEqual(expected);
}, 300_000);
