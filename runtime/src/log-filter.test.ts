import { describe, expect, test } from "vitest";
import { levelOf, parseLogFilter, renderLogFilter, type LogFilter } from "./log-filter.ts";
import { renderProblem } from "./problem.ts";

function parsed(text: string): LogFilter {
  const result = parseLogFilter(text);
  if (!result.ok) throw new Error(result.problems.map(renderProblem).join("\n"));
  return result.value;
}

describe("parseLogFilter", () => {
  test.each([
    ["info", "info"],
    ["OFF", "off"],
    ["Warn,proxy::ratelimit=DEBUG", "warn,proxy::ratelimit=debug"],
    [" info , proxy = trace ", "info,proxy=trace"],
    ["proxy::server=info", "error,proxy::server=info"],
    ["info,proxy::ratelimit", "info,proxy::ratelimit=trace"],
    ["info,a=warn,debug,a=off", "debug,a=off"],
  ])("reads %s as %s", (text, canonical) => {
    expect(renderLogFilter(parsed(text))).toBe(canonical);
  });

  test.each([
    "inof",
    "",
    "info,",
    "proxy=loud",
    "=info",
    "proxy=",
    "a=b=info",
    "pro xy=info",
    "::x",
    "info;proxy=debug",
  ])("refuses '%s' and says what is accepted", (text) => {
    const result = parseLogFilter(text);
    expect(result).toMatchObject({ ok: false });
    expect(result.ok ? "" : renderProblem(result.problems[0]!)).toMatch(
      /^".*" is not a log directive; accepted are a level \(off, error, warn, info, debug, trace\)/,
    );
  });

  test("names every bad directive, not just the first", () => {
    const result = parseLogFilter("loud,info,x=y");
    expect(result.ok ? [] : result.problems.map(({ message }) => message.split(" ")[0])).toEqual(['"loud"', '"x=y"']);
  });

  test("reads back what it renders", () => {
    const filter = parsed("info,proxy::ratelimit=debug,proxy=off");
    expect(parsed(renderLogFilter(filter))).toEqual(filter);
  });
});

describe("levelOf", () => {
  const filter = parsed("info,proxy=warn,proxy::ratelimit=debug");

  test.each([
    ["proxy::ratelimit", "debug"],
    ["proxy::ratelimit::local", "debug"],
    ["proxy::ratelimiter", "warn"],
    ["proxy", "warn"],
    ["other", "info"],
  ])("is for %s %s", (module, level) => {
    expect(levelOf(filter, module)).toBe(level);
  });
});
