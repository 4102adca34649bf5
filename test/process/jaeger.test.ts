/**
 * A trace in a trace backend, a real Jaeger: it begins in a client, crosses the proxy, the rate limit service and a
 * backend, and `proxyctl` and the link of the admin page find it.
 */
import { traceUrl } from "@gatewayproxy/admin-api/trace-url";
import { waitFor } from "@gatewayproxy/runtime/testing/wait-for";
import { expect, test } from "vitest";
import { proxyctl } from "../../proxyctl/src/testing/run.ts";
import { describeWith } from "../support/describe-with.ts";
import { startJaeger } from "../support/jaeger.ts";
import { startTracedPrograms, treeOf, wholeTrace } from "../support/traced-programs.ts";

const soon = { timeout: 60_000, interval: 100 };

describeWith(["jaeger"], "a trace in a real Jaeger", ({ jaeger }) => {
  test.each(["http/protobuf", "grpc"] as const)(
    "is whole, by %s",
    async (protocol) => {
      const backend = await startJaeger(jaeger);
      const { url, request } = await startTracedPrograms({
        OTEL_EXPORTER_OTLP_ENDPOINT: protocol === "grpc" ? backend.grpc : backend.http,
        OTEL_EXPORTER_OTLP_PROTOCOL: protocol,
      });
      const traceId = await request(async (traceparent) => {
        expect((await fetch(url, { headers: { traceparent } })).status).toBe(200);
      });
      await waitFor(async () => expect(treeOf(await backend.trace(traceId))).toEqual(wholeTrace), soon);
      // No span is outside of that tree.
      expect(await backend.trace(traceId)).toHaveLength(7);
      const services = ["client", "gateway-proxy", "RateLimit", "backend"];
      expect(await backend.services()).toEqual(expect.arrayContaining(services));
    },
    120_000,
  );

  test("is that of proxyctl trace --trace-id, and of the link of --trace-url-template", async () => {
    const backend = await startJaeger(jaeger);
    const template = `${backend.url}/trace/{traceId}?uiFind={spanId}`;
    const { proxy, url, request } = await startTracedPrograms({ OTEL_EXPORTER_OTLP_ENDPOINT: backend.http }, [
      "--trace-url-template",
      template,
    ]);
    const admin = new URL(proxy.admin).host;
    let events = "";
    const traceId = await request(async (traceparent) => {
      const port = new URL(url).port;
      const options = ["--address", admin, "--port", port, "--trace-id", traceparent, "--raw"];
      const run = await proxyctl(["trace", ...options, "--", url]);
      expect(run).toMatchObject({ exitCode: 0 });
      events = run.stdout;
    });
    await waitFor(async () => expect(treeOf(await backend.trace(traceId))).toEqual(wholeTrace), soon);

    const { spanId = "" } = startedRequest(events);
    expect(startedRequest(events)).toMatchObject({ type: "requestStarted", traceId });
    const server = (await backend.trace(traceId)).find((span) => span.spanId === spanId);
    expect(server).toMatchObject({ service: "gateway-proxy", name: "GET /" });

    const dump = (await (await fetch(`${proxy.admin}/config_dump`)).json()) as {
      readonly config: { readonly settings: Readonly<Record<string, string>> };
    };
    const link = traceUrl(dump.config.settings["trace-url-template"] ?? "", { traceId, spanId }) ?? "";
    expect(link).toBe(`${backend.url}/trace/${traceId}?uiFind=${spanId}`);
    const page = await fetch(link);
    expect(page.status).toBe(200);
    expect(await page.text()).toContain("Jaeger");
  }, 120_000);
});

/** The first event of `proxyctl trace --raw`. */
function startedRequest(events: string): {
  readonly type?: string;
  readonly traceId?: string;
  readonly spanId?: string;
} {
  const [first = "{}"] = events.split("\n");
  return (JSON.parse(first) as { readonly message: object }).message;
}
