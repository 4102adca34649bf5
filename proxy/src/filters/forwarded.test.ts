import { describe, expect, test } from "vitest";
import { forwardRequestHeaders, requestIdOf, type RequestOrigin } from "./forwarded.ts";

const origin: RequestOrigin = {
  host: "backend.internal",
  authority: "shop.example.com:8080",
  scheme: "http",
  sourceAddress: "192.0.2.7",
  requestId: "id-1",
};

/** All values of one field, in order. */
function valuesOf(headers: readonly string[], name: string): string[] {
  return headers.filter((_, at) => at % 2 === 1 && headers[at - 1]?.toLowerCase() === name);
}

function forwarded(rawHeaders: readonly string[]): string[] {
  return forwardRequestHeaders(rawHeaders, origin);
}

describe("forwardRequestHeaders", () => {
  test("forwards ordinary fields unchanged and in order", () => {
    const raw = ["Accept", "*/*", "X-A", "1", "Content-Length", "5", "cookie", "a=1", "Authorization", "Bearer x"];
    expect(forwarded(raw).slice(2, 2 + raw.length)).toEqual(raw);
  });

  test("adds the origin of the request", () => {
    expect(forwarded([])).toEqual([
      ...["host", "backend.internal", "x-forwarded-for", "192.0.2.7", "x-forwarded-proto", "http"],
      ...["x-forwarded-host", "shop.example.com:8080", "x-request-id", "id-1"],
    ]);
  });

  test("appends the peer to the client's x-forwarded-for, in one field", () => {
    const headers = forwarded(["X-Forwarded-For", "198.51.100.1, 10.0.0.1"]);
    expect(valuesOf(headers, "x-forwarded-for")).toEqual(["198.51.100.1, 10.0.0.1, 192.0.2.7"]);
    expect(valuesOf(forwarded(["X-Forwarded-For", ""]), "x-forwarded-for")).toEqual(["192.0.2.7"]);
  });

  test("does not trust the client's claims on scheme and host", () => {
    const headers = forwarded(["X-Forwarded-Proto", "https", "X-Forwarded-Host", "evil", "X-Request-Id", "other"]);
    expect(valuesOf(headers, "x-forwarded-proto")).toEqual(["http"]);
    expect(valuesOf(headers, "x-forwarded-host")).toEqual(["shop.example.com:8080"]);
    expect(valuesOf(headers, "x-request-id")).toEqual(["id-1"]);
  });

  test("sends one host, and no pseudo-header field", () => {
    const headers = forwarded([":authority", "a", ":path", "/", ":method", "GET", ":scheme", "http", "Host", "a"]);
    expect(valuesOf(headers, "host")).toEqual(["backend.internal"]);
    expect(headers.some((text) => text.startsWith(":"))).toBe(false);
  });

  test.each([
    "connection",
    "keep-alive",
    "proxy-connection",
    "transfer-encoding",
    "upgrade",
    "http2-settings",
    "expect",
    "te",
  ])("does not pass %s on", (name) => {
    expect(valuesOf(forwarded([name, "x"]), name)).toEqual([]);
  });

  test("forwards only trailers of TE", () => {
    expect(valuesOf(forwarded(["TE", "gzip, trailers"]), "te")).toEqual(["trailers"]);
  });
});

describe("requestIdOf", () => {
  test("keeps the client's id so that the logs of both can be joined", () => {
    expect(requestIdOf(["a", "1", "X-Request-ID", "4bf92f35-77b3"], () => "new")).toBe("4bf92f35-77b3");
  });

  test.each([
    ["there is none", []],
    ["it is empty", ["x-request-id", ""]],
    ["it could break a log line", ["x-request-id", "a b\u001b[31m"]],
    ["it is too long", ["x-request-id", "a".repeat(129)]],
  ])("makes one when %s", (_, rawHeaders) => {
    expect(requestIdOf(rawHeaders, () => "new")).toBe("new");
  });
});
