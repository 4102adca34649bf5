/** Routes whose backend is the Gateway itself: their requests end. */
import { expect, test } from "vitest";
import { startBackend } from "../support/backend.ts";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  routeManifest,
  startGateway,
  type TestGateway,
} from "../support/gateway.ts";

/** A Gateway whose backend `self` is its own listener. */
async function start(...rules: readonly string[]): Promise<TestGateway> {
  const gateway = await startGateway(gatewayManifest());
  const self = backendManifest("self", Number(new URL(gateway.url()).port));
  await gateway.apply(manifests(gatewayManifest(), self, routeManifest("r", rules)));
  return gateway;
}

test("a request that returns to the Gateway gets a 508 at its fifth pass", async () => {
  const gateway = await start(`{ backendRefs: [${backendRef("self")}] }`);
  const response = await fetch(gateway.url());
  expect([response.status, await response.text()]).toEqual([
    508,
    expect.stringContaining("comes back to this gateway"),
  ]);
  expect(gateway.records).toHaveLength(5);
  expect(gateway.records[0]).toMatchObject({ status: 508, reason: "LoopDetected", attempts: 0 });
});

test.each([
  "{ type: RequestHeaderModifier, requestHeaderModifier: { remove: [CDN-Loop] } }",
  "{ type: RequestHeaderModifier, requestHeaderModifier: { set: [{ name: cdn-loop, value: x }] } }",
  "{ type: RequestMirror, requestMirror: { backendRef: { group: gatewayproxy.dev, kind: Backend, name: self } } }",
])("no filter makes a loop longer: %s", async (filter) => {
  const gateway = await start(`{ filters: [${filter}], backendRefs: [${backendRef("self")}] }`);
  const response = await fetch(gateway.url(), { headers: { connection: "cdn-loop" } });
  expect(response.status).toBe(508);
  // A mirrored request and its copy end where they would be mirrored again.
  await expect.poll(() => gateway.records.length).toBe(filter.includes("Mirror") ? 3 : 5);
});

test("a mirrored request is rejected where it would be mirrored again, however many mirrors a rule has", async () => {
  const mirror =
    "{ type: RequestMirror, requestMirror: { backendRef: { group: gatewayproxy.dev, kind: Backend, name: self } } }";
  const gateway = await start(
    `{ filters: [${Array(8).fill(mirror).join(", ")}], backendRefs: [${backendRef("self")}] }`,
  );
  const response = await fetch(gateway.url());
  expect([response.status, await response.text()]).toEqual([508, expect.stringContaining("has mirrored it already")]);
  // The client's request, the forwarded request, and eight copies.
  await expect.poll(() => gateway.records.length).toBe(1 + 1 + 8);
});

test("listeners can be chained, and other names stay in the field", async () => {
  const backend = await startBackend();
  const gateway = await startGateway(gatewayManifest());
  const self = backendManifest("self", Number(new URL(gateway.url()).port));
  const rules = [1, 2, 3].map(
    (n) =>
      `{ matches: [{ path: { value: /${n} } }], filters: [{ type: URLRewrite, urlRewrite: { path: { type: ReplaceFullPath, replaceFullPath: /${n + 1} } } }], backendRefs: [${backendRef("self")}] }`,
  );
  rules.push(`{ backendRefs: [${backendRef("b")}] }`);
  await gateway.apply(
    manifests(gatewayManifest(), self, backendManifest("b", backend.port), routeManifest("r", rules)),
  );
  const response = await fetch(`${gateway.url()}/1`, { headers: { "cdn-loop": "other.example; v=1" } });
  expect(response.status).toBe(200);
  expect(backend.requests[0]?.headers["cdn-loop"]).toMatch(/^other\.example; v=1(?:, gateway-proxy-[0-9a-f]{8}){4}$/);
});
