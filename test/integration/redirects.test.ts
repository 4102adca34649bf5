/** RequestRedirect, end to end: the location for each listener, and that nothing is forwarded. */
import { expect, test } from "vitest";
import { respondWith, startBackend } from "../support/backend.ts";
import {
  backendManifest,
  gatewayManifest,
  manifests,
  policyManifest,
  routeManifest,
  startGateway,
  type TestGateway,
} from "../support/gateway.ts";

const twoListeners = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: { name: web, namespace: default }
spec:
  gatewayClassName: gateway-proxy
  listeners:
    - { name: http, protocol: HTTP, port: 80 }
    - { name: alternate, protocol: HTTP, port: 8080 }
`;

function redirect(fields: string, match = "/"): string {
  return `{ matches: [{ path: { value: ${match} } }], filters: [{ type: RequestRedirect, requestRedirect: { ${fields} } }] }`;
}

async function send(
  gateway: TestGateway,
  path: string,
  port = 80,
): Promise<{ status: number; location: string | null }> {
  // fetch puts the port of the connection into Host; the redirect must not repeat that port.
  const response = await fetch(`${gateway.url(port)}${path}`, { redirect: "manual" });
  return { status: response.status, location: response.headers.get("location") };
}

test.each([301, 302, 303, 307, 308])("responds with status %i", async (status) => {
  const gateway = await startGateway(
    manifests(gatewayManifest(), routeManifest("r", [redirect(`hostname: new.example, statusCode: ${status}`)])),
  );
  expect(await send(gateway, "/a?b=c")).toEqual({ status, location: "http://new.example/a?b=c" });
  expect(gateway.records[0]).toMatchObject({ status, reason: undefined, backend: undefined, attempts: 0 });
});

test("the default status is 302, and the default host that of the request", async () => {
  const gateway = await startGateway(
    manifests(
      gatewayManifest(),
      routeManifest("r", [redirect("path: { type: ReplaceFullPath, replaceFullPath: /x }")]),
    ),
  );
  expect(await send(gateway, "/a")).toEqual({ status: 302, location: "http://127.0.0.1/x" });
});

test.each([
  ["", 8080, "http://new.example:8080/a"],
  ["port: 80", 8080, "http://new.example/a"],
  ["scheme: https", 80, "https://new.example/a"],
  ["scheme: https", 8080, "https://new.example/a"],
  ["scheme: https, port: 8443", 80, "https://new.example:8443/a"],
])("{ %s } on a listener of port %i leads to %s", async (fields, port, location) => {
  const gateway = await startGateway(
    manifests(twoListeners, routeManifest("r", [redirect(`hostname: new.example, ${fields}`)])),
  );
  expect((await send(gateway, "/a", port)).location).toBe(location);
});

test.each([
  ["/old", "/new", "/old/item?x=1", "/new/item?x=1"],
  ["/old", "/new", "/old", "/new"],
  ["/old", "/new/", "/old/", "/new/"],
  ["/old", '""', "/old", "/"],
])("the prefix %s becomes %s in %s", async (prefix, replacement, path, expected) => {
  const rule = redirect(`path: { type: ReplacePrefixMatch, replacePrefixMatch: ${replacement} }`, prefix);
  const gateway = await startGateway(manifests(gatewayManifest(), routeManifest("r", [rule])));
  expect((await send(gateway, path)).location).toBe(`http://127.0.0.1${expected}`);
});

test("other filters of the rule edit the redirect", async () => {
  const gateway = await startGateway(
    manifests(
      gatewayManifest(),
      routeManifest("r", [
        "{ filters: [{ type: RequestRedirect, requestRedirect: { hostname: new.example } }, { type: ResponseHeaderModifier, responseHeaderModifier: { set: [{ name: X-By, value: us }] } }, { type: CORS, cors: { allowOrigins: ['https://a.example'] } }] }",
      ]),
    ),
  );
  const { headers } = await fetch(gateway.url(), { redirect: "manual", headers: { origin: "https://a.example" } });
  expect(headers.get("x-by")).toBe("us");
  expect(headers.get("access-control-allow-origin")).toBe("https://a.example");
});

test("a ResponseHeaderModifier overrides CORS, as on responses of a backend", async () => {
  const gateway = await startGateway(
    manifests(
      gatewayManifest(),
      routeManifest("r", [
        `{ filters: [
            { type: RequestRedirect, requestRedirect: { hostname: new.example } },
            { type: CORS, cors: { allowOrigins: ["https://a.example"] } },
            { type: ResponseHeaderModifier, responseHeaderModifier: { set: [{ name: access-control-allow-origin, value: "https://b.example" }] } }
          ] }`,
      ]),
    ),
  );
  const response = await fetch(gateway.url(), { redirect: "manual", headers: { origin: "https://a.example" } });
  expect(response.headers.get("access-control-allow-origin")).toBe("https://b.example");
});

test("a redirect on one backendRef applies to its share, and the other requests are forwarded", async () => {
  const { port, requests } = await startBackend(respondWith(200));
  const gateway = await startGateway(
    manifests(
      gatewayManifest(),
      backendManifest("b", port),
      routeManifest("r", [
        "{ backendRefs: [{ group: gatewayproxy.dev, kind: Backend, name: b, weight: 3 }, { group: gatewayproxy.dev, kind: Backend, name: b, weight: 1, filters: [{ type: RequestRedirect, requestRedirect: { hostname: new.example } }] }] }",
      ]),
    ),
  );
  const statuses: number[] = [];
  for (let n = 0; n < 8; n++) statuses.push((await send(gateway, "/")).status);
  expect(statuses.filter((status) => status === 302)).toHaveLength(2);
  expect(requests).toHaveLength(6);
});

test("limits count redirects like other responses", async () => {
  const gateway = await startGateway(
    manifests(
      gatewayManifest(),
      routeManifest("r", [redirect("hostname: new.example")]),
      policyManifest("p", "kind: HTTPRoute, name: r", ["{ requests: 2, unit: Minutes }"]),
    ),
  );
  const statuses = [];
  for (let n = 0; n < 3; n++) statuses.push((await send(gateway, "/")).status);
  expect(statuses).toEqual([302, 302, 429]);
});
