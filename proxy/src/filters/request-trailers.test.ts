import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { compileHeaderEdits } from "./header-edits.ts";
import { forwardedTrailers, type TrailerContext } from "./request-trailers.ts";

const context: TrailerContext = { received: [], sent: [], edit: undefined, credentials: [], isHttp1: false };

describe("forwardedTrailers", () => {
  test("returns trailers with their values, names in lower case", () => {
    expect(forwardedTrailers(["X-Checksum", "A", "x-note", "b"], context)).toEqual(["x-checksum", "A", "x-note", "b"]);
  });

  test.each([
    // RFC 9110 §6.5.1: framing, routing, authentication, request modifiers, content format.
    ...["content-length", "transfer-encoding", "trailer", "te", "host", "via", "forwarded", "max-forwards", "expect"],
    ...[
      "authorization",
      "proxy-authorization",
      "cookie",
      "set-cookie",
      "x-api-key",
      "content-type",
      "content-encoding",
    ],
    ...["cache-control", "range", "if-match", "if-none-match", "accept", "accept-encoding"],
    // RFC 9110 §7.6.1
    ...["connection", "keep-alive", "proxy-connection", "upgrade", "http2-settings"],
    ...["x-forwarded-for", "x-forwarded-proto", "x-real-ip", "x-envoy-internal", "x-original-url", "x-request-id"],
    ...["x-gateway-model", "cdn-loop", "x-http-method-override", "traceparent", "baggage"],
    // Read as hyphens by servers of CGI programs.
    ...["x_forwarded_for", "x.user", ":path", ""],
  ])("drops %j", (name) => {
    expect(forwardedTrailers([name, "1", name.toUpperCase(), "1", "x-sum", "2"], context)).toEqual(["x-sum", "2"]);
  });

  test("drops the names that the header section has, so that no trailer says something else", () => {
    const sent = ["host", "a", "X-Tenant", "one"];
    expect(forwardedTrailers(["x-tenant", "two", "x-sum", "1"], { ...context, sent })).toEqual(["x-sum", "1"]);
  });

  test("drops the names that Connection lists (RFC 9110 §7.6.1)", () => {
    const received = ["Connection", "keep-alive, X-Hop"];
    expect(forwardedTrailers(["x-hop", "1", "x-sum", "1"], { ...context, received })).toEqual(["x-sum", "1"]);
  });

  test("drops the names of credentials", () => {
    const credentials = ["x-key"];
    expect(forwardedTrailers(["X-Key", "1", "x-sum", "1"], { ...context, credentials })).toEqual(["x-sum", "1"]);
  });

  test("drops the names that the rule removes, sets or adds to", () => {
    const edits = { remove: ["x-a"], set: [{ name: "x-b", value: "1" }], add: [{ name: "x-c", value: "1" }] };
    const edit = compileHeaderEdits(edits, "request");
    const trailers = ["x-a", "1", "x-b", "1", "x-b", "2", "x-c", "2", "x-sum", "1", "x-sum", "2"];
    expect(forwardedTrailers(trailers, { ...context, edit })).toEqual(["x-sum", "1", "x-sum", "2"]);
  });

  test("returns those that Trailer announces, to a backend of HTTP/1 (RFC 9110 §6.6.2)", () => {
    const trailers = ["x-sum", "1", "x-note", "2"];
    const sent = ["Trailer", "X-Other, X-Sum"];
    expect(forwardedTrailers(trailers, { ...context, sent, isHttp1: true })).toEqual(["x-sum", "1"]);
    expect(forwardedTrailers(trailers, { ...context, isHttp1: true })).toEqual([]);
    expect(forwardedTrailers(trailers, { ...context, sent })).toEqual(trailers);
  });

  test("returns only regular names that the header section does not have", () => {
    const name = fc.oneof(fc.constantFrom("x-a", "X-B", "host", "x_a", "if-x", "x-forwarded-x"), fc.string());
    const fields = fc.array(fc.tuple(name, fc.string()), { maxLength: 6 }).map((pairs) => pairs.flat());
    fc.assert(
      fc.property(fields, fields, (trailers, sent) => {
        const kept = forwardedTrailers(trailers, { ...context, sent });
        const has = (list: readonly string[], wanted: string): boolean =>
          list.some((text, at) => at % 2 === 0 && text.toLowerCase() === wanted);
        for (let at = 0; at < kept.length; at += 2) {
          expect(kept[at]).toMatch(/^[a-z0-9-]+$/);
          expect(has(sent, kept[at] ?? "")).toBe(false);
          expect(has(trailers, kept[at] ?? "")).toBe(true);
        }
      }),
    );
  });
});
