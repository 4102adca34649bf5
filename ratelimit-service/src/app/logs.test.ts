import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { describe, expect, test } from "vitest";
import { createLogs } from "./logs.ts";

function logged(level: string, format: "text" | "json"): string[] {
  const lines: string[] = [];
  const clock = new FakeClock(1_700_000_000_000);
  const logs = createLogs({ level, format }, clock, { write: (line) => lines.push(line) }, { worker: 2 });
  if (!logs.ok) throw new Error(logs.problems[0]?.message);
  const log = logs.value.logger("ratelimit::store");
  log.info({ domains: 3 }, "configuration loaded");
  log.warn({ err: new Error("connection refused"), address: "10.0.0.7:6379" }, "redis connection failed");
  return lines;
}

describe("createLogs", () => {
  test("writes text for people by default: time, level, module, message, fields", () => {
    expect(logged("info", "text")).toEqual([
      "2023-11-14T22:13:20.000Z info ratelimit::store configuration loaded worker=2 domains=3\n",
      '2023-11-14T22:13:20.000Z warn ratelimit::store redis connection failed worker=2 err="connection refused" address=10.0.0.7:6379\n',
    ]);
  });

  test("writes JSON with the stack of an error where that is asked for", () => {
    const [, line = "{}"] = logged("info", "json");

    expect(JSON.parse(line)).toMatchObject({ level: "warn", err: { message: "connection refused" } });
    expect(line).toContain("logs.test.ts");
  });

  test.each(["WARN", "warning", "Warning"])("takes the reference's level %s", (level) => {
    expect(logged(level, "text")).toHaveLength(1);
  });

  test.each(["fatal", "panic"])("takes %s, which only the reference has, for error", (level) => {
    expect(logged(level, "text")).toEqual([]);
  });

  test("says what a level may be", () => {
    const logs = createLogs({ level: "loud", format: "text" }, new FakeClock(), { write: () => undefined });

    expect(logs.ok ? "" : logs.problems[0]?.message).toContain("accepted are a level");
  });
});
