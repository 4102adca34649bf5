import { expect, test } from "vitest";
import { isSecretExpression, isSecretName, shownHeaders, shownPath, shownValue } from "./redaction.ts";

test.each([
  "Authorization",
  "Proxy-Authorization",
  "cookie",
  "Set-Cookie",
  "x-api-key",
  "X-Amz-Security-Token",
  "x-session-id",
])("%s may hold a secret", (name) => expect(isSecretName(name)).toBe(true));

test.each(["content-type", "user-agent", "x-team", "sec-websocket-key", "x-request-id"])("%s holds none", (name) =>
  expect(isSecretName(name)).toBe(false),
);

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
