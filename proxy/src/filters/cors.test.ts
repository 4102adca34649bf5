import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Cors, OriginPattern } from "../ir/filter.ts";
import { preflightHeaders, readPreflight, setCorsHeaders } from "./cors.ts";

const asked = ["Origin", "https://a.example", "Access-Control-Request-Method", "PUT"];

function corsFor(...patterns: readonly OriginPattern[]): Cors {
  return { origins: { kind: "listed", patterns }, allowCredentials: false, maxAgeSeconds: 5 };
}

function allows(cors: Cors, origin: string): boolean {
  return preflightHeaders(cors, { origin, method: "GET", headers: undefined }) !== undefined;
}

describe("readPreflight", () => {
  test("parses fields in any case", () => {
    const headers = [...asked, "ACCESS-CONTROL-REQUEST-HEADERS", "x-a"];
    expect(readPreflight("OPTIONS", headers)).toEqual({ origin: "https://a.example", method: "PUT", headers: "x-a" });
  });

  test.each([
    ["another method", "GET", asked],
    ["no origin", "OPTIONS", asked.slice(2)],
    ["no method to come", "OPTIONS", asked.slice(0, 2)],
  ])("%s is none", (_case, method, headers) => {
    expect(readPreflight(method, headers)).toBeUndefined();
  });
});

describe("origins", () => {
  const label = fc.stringMatching(/^[a-z0-9]{1,5}$/);
  const host = fc.array(label, { minLength: 1, maxLength: 4 }).map((labels) => labels.join("."));

  test("a host pattern covers that host alone", () => {
    fc.assert(
      fc.property(host, host, (allowed, other) => {
        const cors = corsFor({ scheme: "https://", host: { kind: "exact", value: allowed }, port: "" });
        expect(allows(cors, `https://${other}`)).toBe(other === allowed);
      }),
    );
  });

  test("a wildcard covers one label or more, and never the bare domain", () => {
    fc.assert(
      fc.property(host, host, (domain, prefix) => {
        const cors = corsFor({ scheme: "https://", host: { kind: "suffix", value: `.${domain}` }, port: "" });
        expect(allows(cors, `https://${prefix}.${domain}`)).toBe(true);
        expect(allows(cors, `https://${prefix}${domain}`)).toBe(false);
        expect(allows(cors, `https://${domain}`)).toBe(false);
      }),
    );
  });

  test.each([
    ["HTTPS://A.Example", true],
    ["https://a.example:443", true],
    ["https://a.example:80", false],
    ["http://a.example:443", false],
    ["https://a.example.", false],
    ["https://[2001:db8::1]", false],
    ["null", false],
    ["", false],
  ])("%s against https://a.example: %s", (origin, allowed) => {
    expect(allows(corsFor({ scheme: "https://", host: { kind: "exact", value: "a.example" }, port: "" }), origin)).toBe(
      allowed,
    );
  });

  test("every host of a scheme does not mean every port", () => {
    const cors = corsFor({ scheme: "https://", host: { kind: "suffix", value: "" }, port: "" });
    expect([allows(cors, "https://x.example"), allows(cors, "https://[2001:db8::1]")]).toEqual([true, true]);
    expect(allows(cors, "https://x.example:8443")).toBe(false);
  });
});

test("CORS fields of the backend are replaced, in any case, and its other fields stay", () => {
  const headers = [
    "Access-Control-Allow-Origin",
    "*",
    "x-a",
    "1",
    "access-control-expose-headers",
    "x-b",
    "vary",
    "accept",
  ];
  const cors = corsFor({ scheme: "https://", host: { kind: "exact", value: "a.example" }, port: "" });
  setCorsHeaders(cors, ["origin", "https://a.example"], headers);
  expect(headers).toEqual([
    ...["x-a", "1", "vary", "accept", "vary", "Origin"],
    ...["access-control-allow-origin", "https://a.example"],
  ]);
});

test("a response that is the same for all origins does not vary by origin", () => {
  const headers: string[] = [];
  setCorsHeaders({ origins: { kind: "any" }, allowCredentials: false, maxAgeSeconds: 5 }, [], headers);
  expect(headers).toEqual([]);
});
