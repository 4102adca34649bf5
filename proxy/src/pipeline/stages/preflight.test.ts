import { expect, test } from "vitest";
import type { Cors } from "../../ir/filter.ts";
import { RecordingRequest } from "../testing/recording-request.ts";
import { preflight } from "./preflight.ts";

const host = { kind: "exact", value: "shop.example.com" } as const;
const cors: Cors = {
  origins: { kind: "listed", patterns: [{ scheme: "https://", host, port: "" }] },
  allowCredentials: false,
  maxAgeSeconds: 5,
};

function preflightOf(origin: string, method = "OPTIONS"): RecordingRequest {
  const rawHeaders = ["host", "shop.example.com", "origin", origin, "access-control-request-method", "GET"];
  return new RecordingRequest({ head: { method, rawHeaders }, rule: { cors } });
}

test("a preflight request of an allowed origin gets a 204", () => {
  const request = preflightOf("https://shop.example.com");
  expect(request.run(preflight)).toBe("responded");
  expect(request.calls).toEqual(["respond 204"]);
  expect(request.headers[0]).toContain("access-control-allow-origin");
});

test("a preflight request of another origin gets a 403", () => {
  const request = preflightOf("https://evil.example.com");
  expect(request.run(preflight)).toBe("responded");
  expect(request.calls).toEqual(["reply OriginNotAllowed"]);
});

test("any other request continues", () => {
  expect(preflightOf("https://evil.example.com", "GET").run(preflight)).toBe("continue");
});
