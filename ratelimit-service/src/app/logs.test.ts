import type { LogFilter } from "@gatewayproxy/runtime/log-filter";
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { describe, expect, test } from "vitest";
import { createLogs } from "./logs.ts";

function logged(level: LogFilter["level"], format: "text" | "json"): string[] {
  const lines: string[] = [];
  const filter = { level, modules: new Map() };
  const clock = new FakeClock(1_700_000_000_000);
  const logs = createLogs({ filter, format }, clock, { write: (line) => lines.push(line) }, { worker: 2 });
  const log = logs.logger("ratelimit::store");
  log.info({ domains: 3 }, "configuration loaded");
  log.warn({ err: new Error("connection refused"), address: "10.0.0.7:6379" }, "redis connection failed");
  return lines;
}

describe("createLogs", () => {
  test("writes text for people where that is asked for: time, level, module, message, fields", () => {
    expect(logged("info", "text")).toEqual([
      "2023-11-14T22:13:20.000Z info ratelimit::store configuration loaded worker=2 domains=3\n",
      '2023-11-14T22:13:20.000Z warn ratelimit::store redis connection failed worker=2 err="connection refused" address=10.0.0.7:6379\n',
    ]);
  });

  test("writes JSON with the stack of an error", () => {
    const [, line = "{}"] = logged("info", "json");

    expect(JSON.parse(line)).toMatchObject({ level: "warn", err: { message: "connection refused" } });
    expect(line).toContain("logs.test.ts");
  });
});
