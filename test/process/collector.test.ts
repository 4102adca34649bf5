/**
 * A trace from end to end, in a real OpenTelemetry Collector: it begins in a client, and crosses the proxy, the rate
 * limit service and a backend, each with spans of its own.
 */
import { waitFor } from "@gatewayproxy/runtime/testing/wait-for";
import { expect, test } from "vitest";
import { startBackend } from "../support/backend.ts";
import { startCollector } from "../support/collector.ts";
import { describeWith } from "../support/describe-with.ts";
import { freePort } from "../support/free-port.ts";
import { backendRef, gatewayManifest, manifests, policyManifest, routeManifest } from "../support/gateway.ts";
import { startProxy } from "../support/proxy-process.ts";
import { rawHttp } from "../support/raw-http.ts";
import { startTracedPrograms, treeOf, wholeTrace } from "../support/traced-programs.ts";

describeWith(["otelcol"], "a trace in a real collector", ({ otelcol }) => {
  test.each(["http/protobuf", "grpc"] as const)(
    "is whole, by %s",
    async (protocol) => {
      const collector = await startCollector(otelcol);
      const { url, request } = await startTracedPrograms({
        OTEL_EXPORTER_OTLP_ENDPOINT: protocol === "grpc" ? collector.grpc : collector.http,
        OTEL_EXPORTER_OTLP_PROTOCOL: protocol,
      });
      const traceId = await request(async (traceparent) => {
        expect((await fetch(url, { headers: { traceparent } })).status).toBe(200);
      });
      await waitFor(
        async () => {
          const spans = (await collector.spans()).filter((each) => each.traceId === traceId);
          const received = spans.map((each) => ({ ...each, start: BigInt(each.startTimeUnixNano) }));
          expect(treeOf(received)).toEqual(wholeTrace);
        },
        { timeout: 60_000, interval: 100 },
      );
      const loads = (await collector.spans()).filter(({ name }) => name === "load configuration");
      expect(loads.map(({ service }) => service)).toEqual(["RateLimit"]);
    },
    120_000,
  );
});

describeWith(["otelcol"], "hostile requests", ({ otelcol }) => {
  test.each(["http/protobuf", "grpc"] as const)(
    "cannot make the collector reject spans, by %s",
    async (protocol) => {
      const collector = await startCollector(otelcol);
      const env = {
        OTEL_EXPORTER_OTLP_ENDPOINT: protocol === "grpc" ? collector.grpc : collector.http,
        OTEL_EXPORTER_OTLP_PROTOCOL: protocol,
        OTEL_BSP_SCHEDULE_DELAY: "20",
        OTEL_PROPAGATORS: "tracecontext,baggage,b3,b3multi",
      };
      const upstream = await startBackend((request, response) => {
        request.resume();
        response.end("hello");
      });
      const port = await freePort();
      const text = manifests(
        gatewayManifest().replace("port: 80", `port: ${port}`),
        `
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: { name: llm, namespace: default }
spec: { ai: { provider: { openai: {} }, host: 127.0.0.1, port: ${upstream.port} } }
`,
        routeManifest("chat", [`{ backendRefs: [${backendRef("llm")}] }`]),
        policyManifest("limits", "kind: HTTPRoute, name: chat", [
          "{ tokens: 1000, unit: Hours, key: 'llm.requestModel' }",
        ]),
      );
      const proxy = await startProxy({ "all.yaml": text }, ["--listen-address", "127.0.0.1", "--workers", "1"], env);
      const url = `http://127.0.0.1:${port}`;
      const known = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
      const heads = [
        "GET /\xff\xfe\x80%ff%00\xc3\x28 HTTP/1.1",
        `GET /${"\xe2\x98".repeat(4_000)} HTTP/1.1`,
        `GET / HTTP/1.1\r\nuser-agent: ${"\xf0\x9f\x92".repeat(10_000)}`,
        `GET / HTTP/1.1\r\ntraceparent: ${known}\r\ntraceparent: ${known}`,
        `GET / HTTP/1.1\r\ntraceparent: ${known}\r\ntracestate: ${"a=\xff,".repeat(2_000)}`,
        `GET / HTTP/1.1\r\ntraceparent: ${known}\r\ntracestate: a=1\r\ntracestate: ${"b=2,".repeat(100)}`,
        `GET / HTTP/1.1\r\ntraceparent: ${"0".repeat(30_000)}\r\nbaggage: ${"a=\xff\x80,".repeat(5_000)}`,
        "GET / HTTP/1.1\r\nb3: \xff-\xff-1\r\nx-b3-traceid: zz\r\nx-b3-spanid: \x80",
        "\xff\x80 / HTTP/1.1",
      ];
      for (const head of heads) await rawHttp(url, `${head}\r\nhost: a\r\nconnection: close\r\n\r\n`);
      // Halves of surrogate pairs, which JSON can have and UTF-8 cannot.
      for (const model of [String.raw`\ud800`, String.raw`x\udc00y`, `${"x".repeat(1_023)}😀`]) {
        const body = `{"model":"${model}","messages":[]}`;
        await (await fetch(`${url}/v1/chat/completions`, { method: "POST", body })).text();
      }
      const sampleOf = async (outcome: string): Promise<number> => {
        const page = await (await fetch(`${proxy.stats}/metrics`)).text();
        const sample = new RegExp(`^gateway_proxy_trace_spans_total\\{outcome="${outcome}"\\} (\\d+)$`, "m").exec(page);
        return Number(sample?.[1] ?? 0);
      };
      await waitFor(
        async () => {
          const requests = (await collector.spans()).filter(({ kind }) => kind === 2);
          expect(requests).toHaveLength(heads.length + 3);
        },
        { timeout: 30_000, interval: 100 },
      );
      expect(await sampleOf("failed")).toBe(0);
      expect((await collector.spans()).some(({ name }) => name.includes("�"))).toBe(true);
    },
    120_000,
  );
});
