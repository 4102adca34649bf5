import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { isTraceUrlTemplate, traceUrl } from "./trace-url.ts";

const traceId = "4bf92f3577b34da6a3ce929d0e0e4736";
const spanId = "00f067aa0ba902b7";

describe("the template of a trace's URL", () => {
  test.each([
    ["https://jaeger.example.com/trace/{traceId}", `https://jaeger.example.com/trace/${traceId}`],
    ["http://[::1]:16686/trace/{traceId}?uiFind={spanId}", `http://[::1]:16686/trace/${traceId}?uiFind=${spanId}`],
    ["https://g.example/explore?q=%7B%7D&id={traceId}#x", `https://g.example/explore?q=%7B%7D&id=${traceId}#x`],
  ])("%s", (template, url) => {
    expect(traceUrl(template, { traceId, spanId })).toBe(url);
  });

  test.each([
    ["no placeholder", "https://jaeger/trace/"],
    ["another scheme", "javascript:alert({traceId})"],
    ["a scheme that the id completes", "{traceId}://jaeger/"],
    ["a host that the id chooses", "https://{traceId}.example.com/"],
    ["credentials", "https://user:password@jaeger/{traceId}"],
    ["an unknown placeholder", "https://jaeger/{traceId}/{service}"],
    ["no URL", "/trace/{traceId}"],
    ["nothing", ""],
  ])("is rejected with %s", (_, template) => {
    expect(isTraceUrlTemplate(template)).toBe(false);
    expect(traceUrl(template, { traceId, spanId })).toBeUndefined();
  });

  test("gives an URL of http or https at the same host, whatever the ids are", () => {
    const template = fc.constantFrom(
      "https://h.example/t/{traceId}",
      "http://h:1/?a={traceId}&b={spanId}",
      "https://h/#{traceId}",
    );
    fc.assert(
      fc.property(template, fc.string({ unit: "binary-ascii" }), (text, id) => {
        const url = new URL(traceUrl(text, { traceId: id, spanId: id }) ?? "");
        expect(url.origin).toBe(new URL(text.replaceAll(/\{\w+\}/g, "")).origin);
      }),
    );
  });
});
