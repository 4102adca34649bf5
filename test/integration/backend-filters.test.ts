/** Filters of a backendRef, end to end: they apply to the requests to that backend, after the filters of the rule. */
import { expect, test } from "vitest";
import { type Echo, startBackend } from "../support/backend.ts";
import { backendManifest, gatewayManifest, manifests, routeManifest, startGateway } from "../support/gateway.ts";

function ref(filters: string, weight = 1): string {
  return `{ group: gatewayproxy.dev, kind: Backend, name: echo, weight: ${weight}, filters: [${filters}] }`;
}

async function serve(rule: string) {
  const { port } = await startBackend();
  const gateway = await startGateway(
    manifests(gatewayManifest(), backendManifest("echo", port), routeManifest("r", [rule])),
  );
  return async (path = "/"): Promise<{ echo: Echo; headers: Headers }> => {
    const response = await fetch(`${gateway.url()}${path}`, { headers: { "x-kept": "1" } });
    return { echo: (await response.json()) as Echo, headers: response.headers };
  };
}

const setBackend = (value: string): string =>
  `{ type: RequestHeaderModifier, requestHeaderModifier: { set: [{ name: Backend, value: ${value} }] } }`;

test("the requests to each backend have the header of that backendRef", async () => {
  const send = await serve(`{ backendRefs: [${ref(setBackend("v1"), 10)}, ${ref(setBackend("v2"), 10)}] }`);
  const seen: Record<string, number> = {};
  for (let n = 0; n < 20; n++) {
    const name = (await send()).echo.headers["backend"] ?? "none";
    seen[name] = (seen[name] ?? 0) + 1;
  }
  expect(seen).toEqual({ v1: 10, v2: 10 });
});

test("they apply after the filters of the rule, and override them", async () => {
  const ruleFilters = `${setBackend("rule")}, { type: URLRewrite, urlRewrite: { hostname: rule.example, path: { type: ReplacePrefixMatch, replacePrefixMatch: /rule } } }`;
  const refFilters = `${setBackend("ref")}, { type: URLRewrite, urlRewrite: { hostname: ref.example } }`;
  const send = await serve(
    `{ matches: [{ path: { value: /api } }], filters: [${ruleFilters}], backendRefs: [${ref(refFilters)}] }`,
  );
  const { echo } = await send("/api/x");
  expect(echo.url).toBe("/rule/x");
  expect(echo.headers).toMatchObject({ backend: "ref", host: "ref.example" });
});

test.each([
  ["ReplaceFullPath, replaceFullPath: /whole", "/whole?q=1"],
  ["ReplacePrefixMatch, replacePrefixMatch: /other", "/other/x?q=1"],
])("a URLRewrite of the path, %s", async (path, expected) => {
  const rewrite = `{ type: URLRewrite, urlRewrite: { path: { type: ${path} } } }`;
  const send = await serve(`{ matches: [{ path: { value: /api } }], backendRefs: [${ref(rewrite)}] }`);
  expect((await send("/api/x?q=1")).echo.url).toBe(expected);
});

test("response headers are edited by the rule and by the backendRef", async () => {
  const edit = (name: string): string =>
    `{ type: ResponseHeaderModifier, responseHeaderModifier: { set: [{ name: ${name}, value: "yes" }] } }`;
  const send = await serve(`{ filters: [${edit("X-Rule")}], backendRefs: [${ref(edit("X-Ref"))}] }`);
  const { headers } = await send();
  expect([headers.get("x-rule"), headers.get("x-ref")]).toEqual(["yes", "yes"]);
});
