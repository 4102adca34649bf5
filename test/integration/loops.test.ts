/** Routes whose backend is the Gateway itself: their requests end. */
import { describe, expect, test } from "vitest";
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

test("Gateways one behind the other mirror a request twice, and a third one that would mirror it again rejects it", async () => {
  const last = await startBackend();
  const mirrorTo = (name: string) =>
    `{ type: RequestMirror, requestMirror: { backendRef: { group: gatewayproxy.dev, kind: Backend, name: ${name} } } }`;
  /** A Gateway that mirrors to the next one, three times, and forwards to it. */
  const mirroring = async (name: string, port: number): Promise<TestGateway> => {
    const filters = Array(3).fill(mirrorTo("next")).join(", ");
    const all = manifests(
      gatewayManifest(),
      backendManifest("next", port),
      routeManifest("r", [`{ filters: [${filters}], backendRefs: [${backendRef("next")}] }`]),
    );
    return startGateway(all.replaceAll("name: web,", `name: ${name},`).replaceAll("name: web }", `name: ${name} }`));
  };
  const portOf = (gateway: TestGateway) => Number(new URL(gateway.url()).port);
  const third = await mirroring("third", last.port);
  const second = await mirroring("second", portOf(third));
  const first = await mirroring("first", portOf(second));
  expect((await fetch(second.url())).status).toBe(200);
  await expect.poll(() => last.requests.length).toBe(4 * 4);
  expect((await fetch(first.url())).status).toBe(508);
  await expect.poll(() => third.records.length).toBe(4 + 4 * 4);
  expect(third.records.at(-1)).toMatchObject({ status: 508, reason: "LoopDetected", attempts: 0 });
  expect(last.requests).toHaveLength(4 * 4);
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

test("a request that returns by the providers of a Backend, or by retries, is not repeated", async () => {
  const gateway = await startGateway(gatewayManifest());
  const { port } = new URL(gateway.url());
  const names = ["a", "b", "c", "d"];
  const backend = (name: string, ai: string) => `
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: { name: ${name}, namespace: default }
spec: { ai: { ${ai} } }
`;
  await gateway.apply(
    manifests(
      gatewayManifest(),
      ...names.map((name) => backend(name, `provider: { openaiCompatible: {} }, host: 127.0.0.1, port: ${port}`)),
      backend("all", `providers: [${names.map((name) => `{ backendRef: { name: ${name} } }`).join(", ")}]`),
      routeManifest("r", [`{ retry: { codes: [500, 508], attempts: 3 }, backendRefs: [${backendRef("all")}] }`]),
    ),
  );
  const body = JSON.stringify({ model: "m", messages: [] });
  const response = await fetch(`${gateway.url()}/v1/chat/completions`, { method: "POST", body });
  expect(response.status).toBe(508);
  expect(gateway.records).toHaveLength(5);
});

describe("a rate limit service that is a Gateway itself", () => {
  const byAddress = "descriptors: [{ entries: [{ name: remote_address, expression: source.address }] }]";

  /** A Gateway without routes, and a function that gives it a route with services at these ports. */
  async function unlimited() {
    const backend = await startBackend();
    const gateway = await startGateway(gatewayManifest());
    const { port } = new URL(gateway.url());
    const limitBy = (...ports: readonly string[]) =>
      gateway.apply(
        manifests(
          gatewayManifest(),
          backendManifest("b", backend.port),
          routeManifest("r", [`{ backendRefs: [${backendRef("b")}] }`]),
          ...ports.map(
            (each, at) => `
apiVersion: gatewayproxy.dev/v1alpha1
kind: ProxyPolicy
metadata: { name: p${at}, namespace: default }
spec:
  targetRefs: [{ group: gateway.networking.k8s.io, kind: HTTPRoute, name: r }]
  traffic: { rateLimit: { global: { domain: d${at}, address: '127.0.0.1:${each}', ${byAddress} } } }
`,
          ),
        ),
      );
    return { backend, gateway, port, limitBy };
  }

  const rejected = { status: 200, grpcStatus: 2, reason: "LoopDetected", attempts: 0 };

  test("gets one call for each limit, which it rejects", async () => {
    const { gateway, port, limitBy, backend } = await unlimited();
    await limitBy(port, port, port);
    expect((await fetch(gateway.url())).status).toBe(200);
    expect(gateway.records).toMatchObject([rejected, rejected, rejected, { status: 200, attempts: 1 }]);
    expect(backend.requests).toHaveLength(1);
  });

  test("rejects calls of another Gateway, too", async () => {
    const [one, other] = [await unlimited(), await unlimited()];
    await one.limitBy(other.port);
    await other.limitBy(one.port);
    expect((await fetch(one.gateway.url())).status).toBe(200);
    expect(one.gateway.records).toMatchObject([{ status: 200, attempts: 1 }]);
    expect(other.gateway.records).toMatchObject([rejected]);
  });

  test("serves them where no service decides over them", async () => {
    const [one, other] = [await unlimited(), await unlimited()];
    await one.limitBy(other.port);
    await other.limitBy();
    await (await fetch(one.gateway.url())).text();
    expect(other.backend.requests.map(({ headers }) => headers["cdn-loop"])).toEqual([
      expect.stringMatching(/^gateway-proxy; rate-limit, gateway-proxy-[0-9a-f]{8}$/),
    ]);
  });
});
