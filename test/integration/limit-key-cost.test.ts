/**
 * Expressions of limits that take too long: a key then has no value, a cost rejects the request, and other requests do
 * not wait.
 */
import { expect, test } from "vitest";
import { respondWith, startBackend } from "../support/backend.ts";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  policyManifest,
  routeManifest,
  startGateway,
} from "../support/gateway.ts";
import { globalPolicy } from "../support/global-policy.ts";
import { startScriptedService } from "../support/rate-limit-service.ts";
import { rawHttp } from "../support/raw-http.ts";

test("a key that takes too much work for a request has no value, and the limit applies", async () => {
  const backend = await startBackend(respondWith(200, "here"));
  const key = 'request.path.replace("", request.path).replace("", request.path)';
  const gateway = await startGateway(
    manifests(
      gatewayManifest(),
      backendManifest("b", backend.port),
      routeManifest("r", [`backendRefs: [${backendRef("b")}]`]),
      policyManifest("p", "kind: HTTPRoute, name: r", [`{ requests: 2, unit: Hours, key: '${key}' }`]),
    ),
  );
  const statuses: number[] = [];
  for (const letter of ["a", "b", "c", "d"]) {
    const path = `/${letter.repeat(700)}`;
    const { status } = await rawHttp(
      gateway.url(),
      `GET ${path} HTTP/1.1\r\nHost: any.example\r\nConnection: close\r\n\r\n`,
    );
    statuses.push(status);
  }
  expect(statuses).toEqual([200, 200, 429, 429]);
});

test("keys beyond the work that a request may take have no value, and their limits apply", async () => {
  const backend = await startBackend(respondWith(200, "here"));
  const entry = (at: number) =>
    `{ requests: 2, unit: Hours, key: 'request.headers["x"].split("").map(x, x + "${at}").join(",")' }`;
  const gateway = await startGateway(
    manifests(
      gatewayManifest(),
      backendManifest("b", backend.port),
      routeManifest("r", [`backendRefs: [${backendRef("b")}]`]),
      ...[0, 16, 32].map((first) =>
        policyManifest(
          `p${first}`,
          "kind: HTTPRoute, name: r",
          Array.from({ length: 16 }, (_, at) => entry(first + at)),
        ),
      ),
    ),
  );
  const statusOf = async (x: string) => (await fetch(gateway.url(), { headers: { x } })).status;
  // Each of these keys has a value for short requests, and each client has its own counter.
  expect([await statusOf("a"), await statusOf("b"), await statusOf("c")]).toEqual([200, 200, 200]);
  const long = (letter: string) => statusOf(letter.repeat(60));
  expect([await long("d"), await long("e"), await long("f")]).toEqual([200, 200, 429]);
});

test.each([
  ["Requests", 'size(request.path.replace("", request.path).replace("", request.path)) > 9 ? 10 : 5'],
  ["Tokens", 'llm.totalTokens + size(request.query["x"].split("").map(c, c + "x").map(c, c + "y").map(c, c + "z"))'],
])("a request whose cost in %s takes too much work is rejected and not forwarded", async (unit, cost) => {
  const backend = await startBackend(respondWith(200, "here"));
  const service = await startScriptedService(() => ({ overallCode: "OK" }));
  const start = (mode: string) =>
    startGateway(
      manifests(
        gatewayManifest(),
        backendManifest("b", backend.port),
        routeManifest("chat", [`backendRefs: [${backendRef("b")}]`]),
        globalPolicy(
          `address: '127.0.0.1:${service.port}', mode: ${mode}, descriptors: [{ unit: ${unit}, cost: '${cost}', entries: [{ name: m, expression: request.method }] }]`,
        ),
      ),
    );
  const gateway = await start("Enforce");
  const padded = `/${"a".repeat(700)}?x=${"b".repeat(9_000)}`;
  const response = await fetch(`${gateway.url()}${padded}`);
  expect([response.status, await response.text()]).toEqual([
    400,
    "the cost or the limit of the request takes too much work to compute",
  ]);
  expect(service.calls).toHaveLength(0);
  expect(backend.requests).toHaveLength(0);
  expect((await fetch(`${gateway.url()}/?x=b`)).status).toBe(200);
  expect(service.calls).toHaveLength(1);
  expect((await fetch(`${(await start("Shadow")).url()}${padded}`)).status).toBe(200);
});
