import { Logs } from "@gatewayproxy/runtime/log";
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { describe, expect, test } from "vitest";
import { accessLogModule, createAccessLog, type AccessLogMode } from "./access-log.ts";
import type { RequestRecord } from "./request-record.ts";
import { limitOf, recordOf } from "./testing/records.ts";

function logged(record: Partial<RequestRecord>, mode: AccessLogMode = "on", level: "info" | "warn" = "info"): string[] {
  const lines: string[] = [];
  const destination = { write: (line: string) => void lines.push(line) };
  const clock = new FakeClock(0);
  const logger = new Logs({ filter: { level, modules: new Map() }, clock, destination }).logger(accessLogModule);
  createAccessLog({ mode, logger, destination, clock })(recordOf(record));
  return lines;
}

function fieldsOf(record: Partial<RequestRecord>): Record<string, unknown> {
  return JSON.parse(logged(record)[0] ?? "{}") as Record<string, unknown>;
}

describe("the access log", () => {
  test("writes one line with all fields in order", () => {
    const usage = { input: 5, output: 7, total: 12, model: "gpt-x", estimated: false };
    expect(logged({ userAgent: "curl/8", usage, durationMs: 12.34567 })).toEqual([
      `${JSON.stringify({
        level: "info",
        time: "1970-01-01T00:00:00.000Z",
        module: "proxy::access",
        requestId: "id-1",
        source: "192.0.2.7",
        method: "GET",
        scheme: "http",
        authority: "shop.example.com",
        path: "/items",
        httpVersion: "1.1",
        userAgent: "curl/8",
        listener: "default/gateway/http",
        route: "default/shop",
        rule: "default/shop/0",
        backend: "Service/default/shop:80",
        endpoint: "10.0.0.1:8080",
        status: 200,
        durationMs: 12.346,
        upstreamMs: 10,
        requestBytes: 0,
        responseBytes: 5,
        inputTokens: 5,
        outputTokens: 7,
        totalTokens: 12,
        model: "gpt-x",
        msg: "request",
      })}\n`,
    ]);
  });

  test("has the format of the loggers' lines, so that one parser reads both", () => {
    const lines: string[] = [];
    const destination = { write: (line: string) => void lines.push(line) };
    const logs = new Logs({ filter: { level: "info", modules: new Map() }, clock: new FakeClock(0), destination });
    logs.logger(accessLogModule).info("request");
    const [start, end] = [
      '{"level":"info","time":"1970-01-01T00:00:00.000Z","module":"proxy::access",',
      '"msg":"request"}\n',
    ];
    expect(lines[0]).toBe(start + end);
    expect(logged({})[0]?.startsWith(start)).toBe(true);
    expect(logged({})[0]?.endsWith(end)).toBe(true);
  });

  test("has the parts of the usage that were reported", () => {
    const details = { cachedInputTokens: 3, cacheCreationTokens: 1, reasoningTokens: 2 };
    expect(fieldsOf({ usage: { input: 5, output: 7, total: 12, ...details, estimated: false } })).toMatchObject(
      details,
    );
    expect(logged({ usage: { input: 5, output: 7, total: 12, estimated: false } })[0]).not.toMatch(/cache|reasoning/);
  });

  test("has both names of a model, the client's only if the backend gets another", () => {
    expect(logged({ clientModel: "gpt-4", requestModel: "gpt-4o" })[0]).toContain(
      '"clientModel":"gpt-4","requestModel":"gpt-4o"',
    );
    expect(logged({ clientModel: "gpt-4", requestModel: "gpt-4" })[0]).not.toContain("clientModel");
    expect(fieldsOf({ clientModel: "unknown" })).toMatchObject({ clientModel: "unknown" });
    expect(fieldsOf({ clientModel: "m".repeat(2_000) })["clientModel"]).toHaveLength(1_025);
  });

  test("has the number of attempts where there was more than one", () => {
    expect(logged({ attempts: 3 })[0]).toContain('"endpoint":"10.0.0.1:8080","calls":3,');
    expect(logged({ attempts: 1 })[0]).not.toContain("calls");
  });

  test("has the provider that has responded, and why others have not", () => {
    const failovers = [{ provider: "Backend/default/openai", cause: "status 429" }];
    expect(fieldsOf({ provider: "Backend/default/azure", failovers })).toMatchObject({
      provider: "Backend/default/azure",
      failovers: ["Backend/default/openai: status 429"],
    });
    expect(logged({})[0]).not.toMatch(/provider|failovers/);
  });

  test("leaves out the query, which may hold a key", () => {
    expect(logged({ path: "/v1/models?api_key=secret" })[0]).not.toContain("secret");
    expect(fieldsOf({ path: "/v1/models?api_key=secret" })["path"]).toBe("/v1/models");
  });

  test("names the entries that denied, and those that would have denied", () => {
    const enforced = limitOf({ entry: 1 });
    const shadow = limitOf({ entry: 2, mode: "Shadow", target: "Gateway/default/gateway" });
    const decisions = [
      { limit: limitOf({}), outcome: "allowed" },
      { limit: enforced, outcome: "denied" },
      { limit: shadow, outcome: "shadowDenied" },
    ] as const;
    expect(fieldsOf({ status: 429, reason: "RateLimited", decisions })).toMatchObject({
      reason: "RateLimited",
      deniedBy: ["default/limits#1 HTTPRoute/default/shop"],
      shadowDeniedBy: ["default/limits#2 Gateway/default/gateway"],
    });
  });

  test("marks estimated tokens", () => {
    expect(fieldsOf({ usage: { total: 3, estimated: true } })).toMatchObject({ totalTokens: 3, usageEstimated: true });
  });

  test("has the reason for which the tokens of a response are unknown", () => {
    expect(fieldsOf({ usageUnread: "undecodable" })).toMatchObject({ usageUnread: "undecodable" });
  });

  test("leaves out the fields of later stages of a request", () => {
    const lost = { listener: undefined, route: undefined, rule: undefined, backend: undefined, endpoint: undefined };
    const fields = fieldsOf({ ...lost, upstreamMs: undefined, status: 404, reason: "RouteNotFound" });
    expect(Object.keys(fields)).not.toEqual(expect.arrayContaining(["listener"]));
    expect(fields).toMatchObject({ status: 404, reason: "RouteNotFound" });
    expect(fields).not.toHaveProperty("upstreamMs");
  });

  test("stays one line whatever the client sends, and of bounded length", () => {
    const hostile = `a\n{"level":"info"}\u001b[31m${"x".repeat(20_000)}`;
    const lines = logged({ path: `/${hostile}`, userAgent: hostile, authority: hostile, method: hostile });
    expect(lines[0]?.trimEnd()).not.toContain("\n");
    expect(lines[0]).not.toContain("\u001b");
    expect(lines[0]?.length).toBeLessThan(5_500);
  });

  test.each<[string, Partial<RequestRecord>, number]>([
    ["a served request", {}, 0],
    ["a client's mistake that the backend found", { status: 400 }, 0],
    ["a failure of the backend", { status: 500 }, 1],
    ["a denied request", { status: 429, reason: "RateLimited" }, 1],
    ["a client that left", { status: 0, reason: "ClientDisconnect" }, 1],
    ["a denial in shadow", { decisions: [{ limit: limitOf({ mode: "Shadow" }), outcome: "shadowDenied" }] }, 1],
  ])("in the mode denied-and-failed writes for %s accordingly", (_, record, count) => {
    expect(logged(record, "denied-and-failed")).toHaveLength(count);
  });

  test("writes nothing when it is off or its level is", () => {
    expect(logged({}, "off")).toEqual([]);
    expect(logged({}, "on", "warn")).toEqual([]);
  });
});
