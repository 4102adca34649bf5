import { describe, expect, test } from "vitest";
import { parseLogFilter, type LogFilter } from "./log-filter.ts";
import { Logs } from "./log.ts";
import { FakeClock } from "../testing/fake-clock.ts";

function filterOf(text: string): LogFilter {
  const result = parseLogFilter(text);
  if (!result.ok) throw new Error(`bad filter in a test: ${text}`);
  return result.value;
}

function createLogs(filter: string) {
  const lines: Record<string, unknown>[] = [];
  const destination = { write: (line: string) => void lines.push(JSON.parse(line) as Record<string, unknown>) };
  const logs = new Logs({ filter: filterOf(filter), clock: new FakeClock(0), destination, bindings: { worker: 2 } });
  return { lines, logs };
}

describe("Logs", () => {
  test("writes one JSON object with level, time, module, fields and phrase", () => {
    const { lines, logs } = createLogs("info");
    logs.logger("proxy::server").warn({ port: 80 }, "listener opened");
    expect(lines).toEqual([
      {
        level: "warn",
        time: "1970-01-01T00:00:00.000Z",
        worker: 2,
        module: "proxy::server",
        port: 80,
        msg: "listener opened",
      },
    ]);
  });

  test("returns the same logger for a module each time", () => {
    const { logs } = createLogs("info");
    expect(logs.logger("proxy::server")).toBe(logs.logger("proxy::server"));
    expect(logs.logger("proxy::server")).not.toBe(logs.logger("proxy::config"));
  });

  test("keeps the stack of an error", () => {
    const { lines, logs } = createLogs("info");
    logs.logger("proxy").error({ err: new Error("boom") }, "request failed");
    expect(lines[0]?.["err"]).toMatchObject({
      message: "boom",
      stack: expect.stringContaining("log.test.ts") as string,
    });
  });

  test("applies a new filter to loggers made before and after it", () => {
    const { lines, logs } = createLogs("info");
    const before = logs.logger("proxy::ratelimit");
    before.debug("too early");
    logs.setFilter(filterOf("off,proxy::ratelimit=debug"));
    before.debug("first");
    logs.logger("proxy::ratelimit::local").debug("second");
    logs.logger("proxy::server").error("silenced");
    expect(lines.map(({ msg }) => msg)).toEqual(["first", "second"]);
  });

  test("logs more of the requests that a directive names, and only messages that its pattern matches", () => {
    const { lines, logs } = createLogs("info,proxy::server[request{route=default/chat}]=debug/tr[iy]");
    const log = logs.logger("proxy::server");
    log.debug({ requestId: "r1", route: "default/chat" }, "trying again");
    log.debug({ requestId: "r2", route: "default/other" }, "trying again");
    log.debug("trying");
    log.info("tried");
    log.info({ requestId: "r3", route: "default/chat" }, "failed");
    expect(lines.map(({ requestId, msg }) => [requestId, msg])).toEqual([
      ["r1", "trying again"],
      [undefined, "tried"],
    ]);
  });
});
