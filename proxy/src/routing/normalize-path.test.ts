import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { normalizePath, otherReadings } from "./normalize-path.ts";
import { defaultPathRules, pathChoices, type PathRules } from "./path-rules.ts";

describe("normalizePath", () => {
  test.each([
    ["/", "/"],
    ["/v1/chat/completions?x=1", "/v1/chat/completions?x=1"],
    ["/a/b/", "/a/b/"],
    ["/.well-known/acme", "/.well-known/acme"],
    ["/...", "/..."],
    ["/a..b/c.", "/a..b/c."],
    ["*", "*"],
    ["/?/../%2e%zz#", "/?/../%2e%zz#"],
  ])("leaves %s as it is", (target, expected) => {
    expect(normalizePath(target)).toBe(expected);
  });

  test.each([
    ["/public/../admin", "/admin"],
    ["/public/./../admin?q=/../", "/admin?q=/../"],
    ["/public/%2e%2e/admin", "/admin"],
    ["/public/.%2E/admin", "/admin"],
    ["//admin", "/admin"],
    ["/public//../admin", "/admin"],
    ["/../../etc/passwd", "/etc/passwd"],
    ["/a/b/..", "/a/"],
    ["/a/b/.", "/a/b/"],
    ["/..", "/"],
    ["//", "/"],
    ["/%61dmin", "/admin"],
    ["/caf%c3%a9", "/caf%C3%A9"],
    ["/group%2fproject", "/group%2Fproject"],
    ["/a%252e%252e/b", "/a%252e%252e/b"],
    ["/a;v=1/b%20c", "/a;v=1/b%20c"],
    ["/ann%40example.com/a%3Ab%2cc", "/ann@example.com/a:b,c"],
    ["/a%2bb", "/a%2Bb"],
  ])("brings %s to its plain spelling %s", (target, expected) => {
    expect(normalizePath(target)).toBe(expected);
  });

  test.each([
    ["a relative reference", "admin"],
    ["an empty target", ""],
    ["a query without a path", "?x=1"],
    ["a lone percent sign", "/a%"],
    ["an escape with a bad digit", "/a%2x"],
    ["an escape that would appear by decoding another", "/a/%%32e%%32e/b"],
    ["NUL", "/a%00.html"],
    ["a fragment", "/a#b"],
    ["bytes that only escapes can spell", Buffer.from("/café").toString("latin1")],
    ["the same beside what must be normalised", "/a//caf\u00e9"],
    ["DEL", "/a\u007f"],
    ["an overlong slash", "/public/%c0%afadmin"],
    ["an overlong dot of three bytes", "/public/%E0%80%AE"],
    ["a backslash", "/public\\admin"],
    ["dots behind an encoded slash", "/public%2f../admin"],
    ["dots before an encoded slash", "/public/..%2fadmin"],
    ["encoded dots between encoded slashes", "/public%2F%2e%2e%2fadmin"],
    ["dots before a backslash", "/public/..\\admin"],
    ["dots behind an encoded backslash", "/public%5c.."],
    ["dots with a path parameter", "/public/..;/admin"],
    ["dots with an encoded path parameter", "/public/..%3b/admin"],
  ])("rejects %s", (_, target) => {
    expect(normalizePath(target)).toBeUndefined();
  });

  const hostileTarget = fc
    .array(
      fc.constantFrom("/", ".", "..", "%2e", "%2E", "%2f", "%5C", "\\", "%", "25", "a", "b", ";", "?", "%00", "\u00e9"),
    )
    .map((parts) => `/${parts.join("")}`);

  const rules: fc.Arbitrary<PathRules> = fc.record({
    escapedSlashes: fc.constantFrom(...pathChoices.escapedSlashes),
    pathParameters: fc.constantFrom(...pathChoices.pathParameters),
    backslashes: fc.constantFrom(...pathChoices.backslashes),
    repeatedSlashes: fc.constantFrom(...pathChoices.repeatedSlashes),
    pathCase: fc.constantFrom(...pathChoices.pathCase),
  });

  test("gives the same for its own result, so that no later decoding step finds more to do", () => {
    fc.assert(
      fc.property(hostileTarget, rules, (target, chosen) => {
        const once = normalizePath(target, chosen);
        fc.pre(once !== undefined);
        expect(normalizePath(once, chosen)).toBe(once);
      }),
      { numRuns: 500 },
    );
  });

  test("never lets a path through that steps upwards for a server that decodes every escape as a separator", () => {
    fc.assert(
      fc.property(hostileTarget, rules, (target, chosen) => {
        const path = normalizePath(target, chosen)?.split("?")[0];
        fc.pre(path !== undefined);
        const decoded = path.replace(/%(..)/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
        const asDecodedUpstream = decoded.replaceAll("\\", "/");
        expect(asDecodedUpstream.split("/").map((segment) => segment.split(";")[0])).not.toContain("..");
      }),
      { numRuns: 500 },
    );
  });
});

describe("path rules", () => {
  test.each<[keyof PathRules, string, string, string | undefined]>([
    ["escapedSlashes", "keep", "/a%2fb%5cc", "/a%2Fb%5Cc"],
    ["escapedSlashes", "consistent", "/a%2fb", "/a%2Fb"],
    ["escapedSlashes", "reject", "/a%2fb", undefined],
    ["escapedSlashes", "reject", "/a%5Cb", undefined],
    ["escapedSlashes", "decode", "/a%2fb", "/a/b"],
    ["escapedSlashes", "decode", "/%2fa%2F%2Fb", "/a/b"],
    ["escapedSlashes", "decode", "/public/..%2fadmin", "/admin"],
    ["escapedSlashes", "decode", "/a%5cb", undefined],
    ["escapedSlashes", "decode", "/a%252fb", "/a%252fb"],
    ["pathParameters", "keep", "/a;x/b", "/a;x/b"],
    ["pathParameters", "reject", "/a;x/b", undefined],
    ["pathParameters", "reject", "/a%3bx/b", undefined],
    ["pathParameters", "strip", "/;/admin;a=1;b/c;?q=;", "/admin/c?q=;"],
    ["pathParameters", "strip", "/public/..;/admin", undefined],
    ["backslashes", "keep", "/a\\b", "/a\\b"],
    ["backslashes", "convert", "/a\\b\\..\\c", "/a/c"],
    ["repeatedSlashes", "keep", "//a///b", "//a///b"],
    ["repeatedSlashes", "keep", "//a/../b", undefined],
    ["repeatedSlashes", "reject", "/a//b", undefined],
    ["pathCase", "lower", "/ADMIN/%c3%a9?Q=A", "/admin/%C3%A9?Q=A"],
  ])("%s: %s makes of %s %s", (name, choice, target, expected) => {
    expect(normalizePath(target, { ...defaultPathRules, [name]: choice })).toBe(expected);
  });

  test.each([
    ["/a/b?c=%2F;", []],
    ["/%2Fadmin", ["/admin"]],
    ["/admin%5Cx", ["/admin/x"]],
    ["/;/admin", ["/admin", "/;/admin"]],
    ["/admin%3Bx", ["/admin"]],
    ["/a;x%2Fb", ["/a;x/b", "/a", "/a/b"]],
  ])("%s can be read as %j", (target, readings) => {
    expect(new Set(otherReadings(target, defaultPathRules))).toEqual(
      new Set(readings.filter((reading) => reading !== target)),
    );
  });

  test("only `consistent` asks about other readings", () => {
    const decided: PathRules = { ...defaultPathRules, escapedSlashes: "keep", pathParameters: "strip" };
    expect(otherReadings("/a%2Fb;c", decided)).toEqual([]);
  });
});
