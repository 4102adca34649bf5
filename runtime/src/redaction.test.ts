import fc from "fast-check";
import { expect, test } from "vitest";
import {
  isSecretExpression,
  isSecretName,
  isSecretValue,
  shownHeaders,
  shownPath,
  shownText,
  shownValue,
} from "./redaction.ts";

test.each([
  ...["Authorization", "Proxy-Authorization", "cookie", "Set-Cookie", "x-api-key", "X-Amz-Security-Token"],
  ...["x-session-id", "x-bearer", "x-sign", "X-Amz-Signature", "x-goog-iam", "x-goog-iam-authority-selector"],
  ...["x-upstream-pass", "jwt", "access", "pw", "db_pw", "sig", "code", "accessToken", "userPass", "id_token", "sid"],
  ...["x-csrf-token", "SAMLResponse", "client_assertion", "dpop", "X-Access", "apikey", "authorization_code"],
])("%s may hold a secret", (name) => expect(isSecretName(name)).toBe(true));

test.each([
  ...["content-type", "user-agent", "x-team", "sec-websocket-key", "x-request-id", "access-control-allow-origin"],
  ...["totalTokens", "accept", "design", "encoding", "compass-id", "x-forwarded-for", "passage", "host"],
])("%s holds none", (name) => expect(isSecretName(name)).toBe(false));

test.each([
  ["Bearer abc", true],
  ["Basic dXNlcjpwYXNz", true],
  ["eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc", true],
  ["sk-proj-abcdefghijklmnop", true],
  ["ghp_abcdefghijklmnopqrst", true],
  ["application/json", false],
  ["basic", false],
  ["task-of-the-day", false],
])("the value %j is a credential by its form: %j", (value, isSecret) => {
  expect(isSecretValue(value)).toBe(isSecret);
});

test.each([
  ["https://a.example/cb?code=MARK&state=1", "https://a.example/cb?code=<redacted>&state=1"],
  ["/a#access_token=MARK", "/a#access_token=<redacted>"],
  ["/a;jsessionid=MARK/b?n=1", "/a;jsessionid=<redacted>"],
  ["/a?n=1;token=MARK/MARK,MARK;MARK&m=2", "/a?n=1;token=<redacted>&m=2"],
  ["/a?next=https%3A%2F%2Fh%2F%3Ftoken%3DMARK&n=1", "/a?next=<redacted>&n=1"],
  ["/plain?n=1&m=2#top", "/plain?n=1&m=2#top"],
  ["https://user:MARK@a.example/", "https://<redacted>@a.example/"],
  ["<https://a.example/?sig=MARK>; rel=next", "<https://a.example/?sig=<redacted>>; rel=next"],
  ["/hooks/sk-proj-MARKMARKMARKMARK/x", "/hooks/<redacted>/x"],
  ["/a?next=Bearer%20MARK", "/a?next=<redacted>"],
])("%s is shown as %s", (text, shown) => {
  expect(shownPath(text)).toBe(shown);
});

test.each([
  ["Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36"],
  ["agent/1 sk-proj-MARKMARKMARKMARK (x)", "agent/1 <redacted> (x)"],
  ["agent/1 (+https://u:MARK@a.example/?token=MARK)", "agent/1 (+https://<redacted>@a.example/?token=<redacted>"],
  ["Bearer MARK", "<redacted>"],
  ["sk-proj-MARKMARKMARKMARK.example.com", "<redacted>"],
  ["/v1/ghp_MARKMARKMARKMARK/x", "/v1/<redacted>/x"],
])("the text %s is shown as %s", (text, shown) => {
  expect(shownText(text)).toBe(shown);
});

test("the cheap look misses nothing that the thorough one finds", () => {
  const piece = fc.constantFrom(
    ...[
      "/",
      " ",
      ";",
      "?",
      "a",
      "token",
      "=",
      "MARKMARKMARKMARKMARK",
      "sk-",
      "rk_",
      "pk-",
      "ghp_",
      "gho-",
      "github_pat_",
    ],
    ...[
      "xoxb-",
      "glpat-",
      "hf_",
      "AKIA",
      "AIza",
      "eyJ",
      "Bearer ",
      "BASIC ",
      "dpop\t",
      "//",
      "@",
      "u:",
      "%3D",
      "&",
      "#",
    ],
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 8 }), (pieces) => {
      const text = pieces.join("");
      if (shownPath(text) !== text || isSecretValue(text)) expect(shownText(text)).not.toBe(text);
      else expect(shownText(text)).toBe(text);
      expect(isSecretValue(shownText(text))).toBe(false);
    }),
    { numRuns: 2_000 },
  );
});

test.each([
  "eyJ".repeat(6_000),
  "-eyJa".repeat(4_000),
  "?a=%2525".repeat(2_000),
  "//".repeat(9_000),
  ";a=1".repeat(5_000),
])("a long path costs little", (path) => {
  // The best of five, since the machine may be busy. Work that grew with the square of the length would take seconds.
  const times = Array.from({ length: 5 }, () => {
    const start = performance.now();
    shownPath(path);
    return performance.now() - start;
  });
  expect(Math.min(...times)).toBeLessThan(500);
});

test("an expression is as secret as what it reads", () => {
  expect(isSecretExpression('request.headers["x-api-key"]')).toBe(true);
  expect(isSecretExpression("request.headers.authorization")).toBe(true);
  expect(isSecretExpression('request.headers["x-team"] + source.address')).toBe(false);
});

test("headers and parameters keep their names and their order", () => {
  expect(shownHeaders([":method", "GET", "X-Api-Key", "secret", "accept", "*/*"])).toEqual([
    { name: "X-Api-Key", value: "<redacted>" },
    { name: "accept", value: "*/*" },
  ]);
  expect(shownPath("/v1?n=1&access%5Ftoken=secret&b")).toBe("/v1?n=1&access%5Ftoken=<redacted>&b");
  expect(shownPath("/v1?%zz=1")).toBe("/v1?%zz=1");
});

test("a secret is shown as a fingerprint that who knows it can make, with its end only where it is long", () => {
  // printf %s canary-client-api-key | sha256sum | cut -c 1-8
  expect(shownValue("canary-client-api-key", true)).toEqual({ text: "sha256:ad81f266…-key", isSecret: true });
  expect(shownValue("short", true).text).toMatch(/^sha256:[0-9a-f]{8}…$/);
  expect(shownValue("blue", false)).toEqual({ text: "blue", isSecret: false });
  expect(shownValue("é".repeat(100), false).text).toBe("é".repeat(32));
});
