import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { normalizePath } from "./normalize-path.ts";

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
    ["dots behind an encoded slash", "/public%2f../admin"],
    ["dots before an encoded slash", "/public/..%2fadmin"],
    ["encoded dots between encoded slashes", "/public%2F%2e%2e%2fadmin"],
    ["dots before a backslash", "/public/..\\admin"],
    ["dots behind an encoded backslash", "/public%5c.."],
    ["dots with a path parameter", "/public/..;/admin"],
    ["dots with an encoded path parameter", "/public/..%3b/admin"],
  ])("refuses %s", (_, target) => {
    expect(normalizePath(target)).toBeUndefined();
  });

  const hostileTarget = fc
    .array(
      fc.constantFrom("/", ".", "..", "%2e", "%2E", "%2f", "%5C", "\\", "%", "25", "a", "b", ";", "?", "%00", "\u00e9"),
    )
    .map((parts) => `/${parts.join("")}`);

  test("gives the same for its own result, so that no later decoding step finds more to do", () => {
    fc.assert(
      fc.property(hostileTarget, (target) => {
        const once = normalizePath(target);
        fc.pre(once !== undefined);
        expect(normalizePath(once)).toBe(once);
      }),
    );
  });

  test("never lets a path through that steps upwards for a server that decodes every escape as a separator", () => {
    fc.assert(
      fc.property(hostileTarget, (target) => {
        const path = normalizePath(target)?.split("?")[0];
        fc.pre(path !== undefined);
        const decoded = path.replace(/%(..)/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
        const asDecodedUpstream = decoded.replaceAll("\\", "/");
        expect(asDecodedUpstream.split("/").map((segment) => segment.split(";")[0])).not.toContain("..");
      }),
    );
  });
});
