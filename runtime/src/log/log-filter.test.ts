import { describe, expect, test } from "vitest";
import { type LogFilter, levelOf, parseLogFilter, passes, renderLogFilter } from "./log-filter.ts";
import { renderProblem } from "../text/problem.ts";

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
    ["info,", "info"],
    [",,info,,proxy=warn,", "info,proxy=warn"],
    ["4,proxy=1", "debug,proxy=error"],
    ["proxy", "error,proxy=trace"],
    ["proxy=", "error,proxy=trace"],
    ["info,proxy::ratelimit=", "info,proxy::ratelimit=trace"],
    ["info,proxy[request{route=default/chat}]=debug", "info,proxy[request{route=default/chat}]=debug"],
    ['info,[{route="default/chat",requestId}]', "info,[request{route=default/chat,requestId}]=trace"],
    ["info/rejected|denied", "info/rejected|denied"],
    ["/rejected", "trace/rejected"],
  ])("parses %s as %s", (text, canonical) => {
    expect(renderLogFilter(parsed(text))).toBe(canonical);
  });

  test.each([
    "proxy=loud",
    "=info",
    "a=b=info",
    "proxy]",
    "proxy[request=info",
    "pro xy=info",
    "::x",
    "info;proxy=debug",
  ])("rejects '%s' and says what is accepted", (text) => {
    const result = parseLogFilter(text);
    expect(result).toMatchObject({ ok: false });
    expect(result.ok ? "" : renderProblem(result.problems[0]!)).toMatch(
      /^".*" is not a log directive; accepted are a level \(off, error, warn, info, debug, trace\)/,
    );
  });

  test("names every bad directive, not just the first", () => {
    const result = parseLogFilter("a b,info,x=y");
    expect(result.ok ? [] : result.problems.map(({ message }) => message)).toEqual([
      expect.stringMatching(/^"a b" is not/),
      expect.stringMatching(/^"x=y" is not/),
    ]);
  });

  test.each([
    ["", /^nothing is set/],
    [",", /^nothing is set/],
    ["inof", /^"inof" is neither a level nor a module; did you mean info\?$/],
    ["info,proxy::ratelimitt=debug", /^there is no module "proxy::ratelimitt"; did you mean proxy::ratelimit\?$/],
    [
      "verbose",
      /^"verbose" is neither a level nor a module; accepted are off, .*, trace, proxy::config, proxy::ratelimit$/,
    ],
    ["info,envoy::http=debug", /^there is no module "envoy::http"; accepted are proxy::config, proxy::ratelimit$/],
    ["info,proxy[connection]=debug", /names the span "connection"; the only accepted span is request$/],
    ["info,proxy[request{=x}]=debug", /^the fields of .* cannot be read/],
    ["info/(", /^"\(" is not a regular expression$/],
    [`info/${"x".repeat(257)}`, /^the pattern of messages has 257 characters, accepted are 256$/],
  ])("rejects '%s' in a process with two modules, and says why", (text, reason) => {
    const result = parseLogFilter(text, ["proxy::config", "proxy::ratelimit"]);
    expect(result.ok ? [] : result.problems.map(({ message }) => message)).toEqual([expect.stringMatching(reason)]);
  });

  test.each(["proxy=debug", "proxy::ratelimit", "proxy::config[request]=debug"])(
    "takes '%s' of that process",
    (text) => {
      expect(parseLogFilter(text, ["proxy::config", "proxy::ratelimit"]).ok).toBe(true);
    },
  );

  test("parses what it renders", () => {
    const filter = parsed("info,proxy::ratelimit=debug,proxy=off");
    expect(parsed(renderLogFilter(filter))).toEqual(filter);
  });
});

describe("passes", () => {
  const filter = parsed("warn,proxy::server[request{route=default/chat}]=debug,[request{requestId=r1}]=info");
  const line = { requestId: "r0", route: "default/chat" };

  test.each([
    ["a line of its level", "proxy::config", "warn", {}, true],
    ["a line below its level", "proxy::config", "info", line, false],
    ["a line of the request, of the module", "proxy::server", "debug", line, true],
    ["a line of the request, below the directive's level", "proxy::server", "trace", line, false],
    ["a line of another route", "proxy::server", "debug", { ...line, route: "default/x" }, false],
    ["a line that has the route and is of no request", "proxy::server", "debug", { route: "default/chat" }, false],
    [
      "a line of the request that a directive for all modules names",
      "proxy::config",
      "info",
      { requestId: "r1" },
      true,
    ],
    ["a line without fields", "proxy::server", "debug", undefined, false],
  ] as const)("%s", (_, module, level, fields, isLogged) => {
    expect(passes(filter, module, level, "tried again", fields)).toBe(isLogged);
  });

  test("keeps only messages that the pattern matches", () => {
    const some = parsed("info/rejected|denied");
    expect(["request rejected", "request served"].map((text) => passes(some, "proxy", "info", text, {}))).toEqual([
      true,
      false,
    ]);
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
