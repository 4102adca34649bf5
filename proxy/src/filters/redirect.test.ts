import { describe, expect, test } from "vitest";
import type { Redirect } from "../ir/filter.ts";
import { type RedirectedRequest, redirectLocation } from "./redirect.ts";

const asked: RedirectedRequest = {
  scheme: "http",
  authority: "shop.example:8080",
  path: "/old/item?x=1",
  match: { path: { kind: "PathPrefix", value: "/old" }, headers: [], query: [] },
  listenerPort: 80,
};

function locate(redirect: Partial<Redirect>, request: Partial<RedirectedRequest> = {}): string {
  return redirectLocation({ statusCode: 302, ...redirect }, { ...asked, ...request });
}

describe("redirectLocation", () => {
  // Listener protocol and port, filter scheme and port: every row of the API's rules on ports.
  test.each<[string, Partial<RedirectedRequest>, Partial<Redirect>, string]>([
    ["the listener's port 80 is implied by http", {}, {}, "http://shop.example"],
    ["the listener's other port is named", { listenerPort: 8080 }, {}, "http://shop.example:8080"],
    ["a port of the filter wins", { listenerPort: 8080 }, { port: 8443 }, "http://shop.example:8443"],
    ["a port of the filter that http implies is left out", { listenerPort: 8080 }, { port: 80 }, "http://shop.example"],
    ["a scheme brings its own port", { listenerPort: 8080 }, { scheme: "https" }, "https://shop.example"],
    ["a scheme and its own port", {}, { scheme: "https", port: 443 }, "https://shop.example"],
    ["a scheme with the other scheme's port", {}, { scheme: "https", port: 80 }, "https://shop.example:80"],
    ["https on port 443 stays so", { scheme: "https", listenerPort: 443 }, {}, "https://shop.example"],
    ["https on another port", { scheme: "https", listenerPort: 8443 }, {}, "https://shop.example:8443"],
    ["down to http", { scheme: "https", listenerPort: 8443 }, { scheme: "http" }, "http://shop.example"],
  ])("%s", (_case, request, redirect, origin) => {
    expect(locate(redirect, request)).toBe(`${origin}/old/item?x=1`);
  });

  test("takes the filter's host in place of the client's", () => {
    expect(locate({ hostname: "new.example" })).toBe("http://new.example/old/item?x=1");
  });

  test.each([
    ["the whole path", { kind: "ReplaceFullPath", value: "/new" } as const, "http://shop.example/new?x=1"],
    ["the matched prefix", { kind: "ReplacePrefixMatch", value: "/new" } as const, "http://shop.example/new/item?x=1"],
  ])("replaces %s and keeps the query", (_case, path, location) => {
    expect(locate({ path })).toBe(location);
  });

  test("keeps an IPv6 address in its brackets", () => {
    expect(locate({}, { authority: "[2001:db8::1]:80" })).toBe("http://[2001:db8::1]/old/item?x=1");
    expect(locate({}, { authority: "[2001:db8::1]" })).toBe("http://[2001:db8::1]/old/item?x=1");
  });

  test("names a path alone to a client that named no host", () => {
    expect(locate({ scheme: "https" }, { authority: "" })).toBe("/old/item?x=1");
  });
});
