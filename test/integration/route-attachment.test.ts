/** The listeners that serve a route, and the rules they serve: parentRefs, host names, named rules, invalid rules. */
import { describe, expect, test } from "vitest";
import { respondWith, startBackend } from "../support/backend.ts";
import {
  backendManifest,
  backendRef,
  manifests,
  policyManifest,
  routeManifest,
  startGateway,
  type TestGateway,
} from "../support/gateway.ts";
import { rawHttp } from "../support/raw-http.ts";

const listeners = (...list: readonly string[]): string => `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: { name: web, namespace: default }
spec:
  gatewayClassName: gateway-proxy
  listeners: [${list.join(", ")}]
`;

const twoPorts = listeners("{ name: a, protocol: HTTP, port: 80 }", "{ name: b, protocol: HTTP, port: 8080 }");

async function backendNamed(name: string): Promise<string> {
  return backendManifest(name, (await startBackend(respondWith(200, name))).port);
}

async function statusOf(gateway: TestGateway, port: number, path = "/", host = "any.example"): Promise<number> {
  const { status } = await rawHttp(
    gateway.url(port),
    `GET ${path} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`,
  );
  return status;
}

describe("parentRefs", () => {
  test.each([
    ["", 200, 200],
    [", port: 8080", 404, 200],
    [", sectionName: a", 200, 404],
    [", sectionName: b, port: 8080", 404, 200],
  ])("{ name: web%s }: %i on port 80, %i on port 8080", async (fields, on80, on8080) => {
    const route = routeManifest("r", [`{ backendRefs: [${backendRef("b")}] }`]).replace(
      "name: web",
      `name: web${fields}`,
    );
    const gateway = await startGateway(manifests(twoPorts, await backendNamed("b"), route));
    expect([await statusOf(gateway, 80), await statusOf(gateway, 8080)]).toEqual([on80, on8080]);
  });

  test.each([[", port: 81"], [", sectionName: c"], [", sectionName: a, port: 8080"]])(
    "{ name: web%s } matches no listener, and the status says so",
    async (fields) => {
      const gateway = await startGateway(twoPorts);
      const route = routeManifest("r", [`{ backendRefs: [${backendRef("b")}] }`]).replace(
        "name: web",
        `name: web${fields}`,
      );
      const { statuses } = await gateway.apply(manifests(twoPorts, await backendNamed("b"), route));
      expect(statuses.httpRoutes[0]?.parents[0]?.conditions[0]).toMatchObject({
        type: "Accepted",
        status: "False",
        reason: "NoMatchingParent",
      });
      expect(await statusOf(gateway, 80)).toBe(404);
    },
  );
});

test("an exact host of one route takes precedence over a wildcard of another, whatever the paths", async () => {
  const host = (name: string, hostname: string, path: string): string =>
    routeManifest(
      name,
      [`{ matches: [{ path: { value: ${path} } }], backendRefs: [${backendRef(name)}] }`],
      `hostnames: ["${hostname}"]`,
    );
  const gateway = await startGateway(
    manifests(
      // If restricted to the listener's one host, the two routes would have equal hosts, and the longer path would win.
      listeners("{ name: http, protocol: HTTP, port: 80, hostname: www.example.com }"),
      await backendNamed("wild"),
      await backendNamed("exact"),
      host("wild", "*.example.com", "/longer/path"),
      host("exact", "www.example.com", "/"),
    ),
  );
  const { body } = await rawHttp(
    gateway.url(),
    "GET /longer/path HTTP/1.1\r\nHost: www.example.com\r\nConnection: close\r\n\r\n",
  );
  expect(body).toBe("exact");
});

test("policies and the log refer to a named rule by its name", async () => {
  const gateway = await startGateway(
    manifests(
      listeners("{ name: http, protocol: HTTP, port: 80 }"),
      await backendNamed("b"),
      routeManifest("r", [
        `{ name: cheap, matches: [{ path: { value: /cheap } }], backendRefs: [${backendRef("b")}] }`,
        `{ name: dear, matches: [{ path: { value: /dear } }], backendRefs: [${backendRef("b")}] }`,
      ]),
      policyManifest("p", "kind: HTTPRoute, name: r, sectionName: dear", ["{ requests: 1, unit: Hours }"]),
    ),
  );
  const statuses = [];
  for (const path of ["/cheap", "/dear", "/cheap", "/dear"]) statuses.push(await statusOf(gateway, 80, path));
  expect(statuses).toEqual([200, 200, 200, 429]);
  expect(gateway.records.map(({ rule }) => rule)).toEqual([
    "default/r/cheap",
    "default/r/dear",
    "default/r/cheap",
    "default/r/dear",
  ]);
});

test("a route with an invalid rule serves the others, and its status names the invalid one", async () => {
  const gateway = await startGateway(twoPorts);
  const extension = "{ type: ExtensionRef, extensionRef: { group: example.net, kind: Magic, name: m } }";
  const { statuses } = await gateway.apply(
    manifests(
      listeners("{ name: http, protocol: HTTP, port: 80 }"),
      await backendNamed("b"),
      routeManifest("r", [
        `{ backendRefs: [${backendRef("b")}] }`,
        `{ matches: [{ path: { value: /magic } }], filters: [${extension}], backendRefs: [${backendRef("b")}] }`,
      ]),
    ),
  );
  expect(statuses.httpRoutes[0]?.parents[0]?.conditions).toMatchObject([
    { type: "Accepted", status: "True" },
    { type: "ResolvedRefs", status: "True" },
    { type: "PartiallyInvalid", status: "True", reason: "UnsupportedValue" },
  ]);
  expect(statuses.httpRoutes[0]?.parents[0]?.conditions[2]?.message).toMatch(/^Dropped Rule 1 /);
  expect(await statusOf(gateway, 80)).toBe(200);
  // A request never skips the filter to match the rule for all paths.
  expect(await statusOf(gateway, 80, "/magic")).toBe(500);
});
