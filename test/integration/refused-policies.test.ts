/** Policies that cannot be read, end to end: their targets respond with 503, and nothing else does. */
import { describe, expect, test } from "vitest";
import { respondWith, startBackend } from "../support/backend.ts";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  routeManifest,
  startGateway,
} from "../support/gateway.ts";

const route = (name: string, namespace = "default"): string =>
  routeManifest(name, [`{ name: main, matches: [{ path: { value: /${name} } }], backendRefs: [${backendRef("b")}] }`])
    .replace("namespace: default", `namespace: ${namespace}`)
    .replace("parentRefs: [{ name: web }]", "parentRefs: [{ name: web, namespace: default }]");

function policy(targetRefs: string, local: string, namespace = "default"): string {
  return `
apiVersion: gatewayproxy.dev/v1alpha1
kind: ProxyPolicy
metadata: { name: p, namespace: ${namespace} }
spec:
  targetRefs: ${targetRefs}
  traffic: { rateLimit: ${local} }
`;
}

const onRoute = "[{ group: gateway.networking.k8s.io, kind: HTTPRoute, name: chat }]";
const valid = "{ local: [{ requests: 5, unit: Hours }] }";
const unknownField = "{ local: [{ requests: 5, unit: Hours, novelty: 1 }] }";
const badKey = "{ local: [{ requests: 5, unit: Hours, key: request.nothing }] }";
const badGlobal =
  "{ global: { address: 127.0.0.1:9, domain: d, descriptors: [{ entries: [{ name: n, expression: request.nothing }] }] } }";
const shadow = "local: [{ requests: 5, unit: Hours, mode: Shadow }]";
const besideShadow = badGlobal.replace("{ global", `{ ${shadow}, global`);

async function start(...documents: readonly string[]) {
  const backend = await startBackend(respondWith(200));
  const open = gatewayManifest().replace("port: 80 }", "port: 80, allowedRoutes: { namespaces: { from: All } } }");
  const grant = `
apiVersion: gateway.networking.k8s.io/v1
kind: ReferenceGrant
metadata: { name: g, namespace: default }
spec:
  from: [{ group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: other }]
  to: [{ group: gatewayproxy.dev, kind: Backend }]
`;
  const foreign = route("foreign", "other").replace("kind: Backend,", "kind: Backend, namespace: default,");
  const base = [open, grant, backendManifest("b", backend.port), route("chat"), route("beside"), foreign];
  const gateway = await startGateway(manifests(...base, ...documents), { expectsProblems: true });
  const statusOf = async (path: string): Promise<number> => (await fetch(`${gateway.url()}${path}`)).status;
  const statuses = async () => [await statusOf("/chat"), await statusOf("/beside"), await statusOf("/foreign")];
  return { gateway, statuses };
}

describe("a policy that cannot be read", () => {
  test.each([
    ["because of an unknown field", policy(onRoute, unknownField)],
    ["because of its key", policy(onRoute, badKey)],
    ["because of all expressions of its global limit", policy(onRoute, badGlobal)],
    ["because of all its limits", policy(onRoute, "17")],
    [
      "because of the kind of its target, which probably is a route",
      policy("[{ kind: HttpRoute, name: chat }]", valid),
    ],
    ["because of a limit of a newer version", policy(onRoute, "{ sliding: [{ requests: 5 }] }")],
    [
      "because of a limit of a newer version, beside an entry in shadow mode",
      policy(onRoute, `{ sliding: [], ${shadow} }`),
    ],
    ["because of all expressions of its global limit, beside an entry in shadow mode", policy(onRoute, besideShadow)],
    ["because it has no limit", policy(onRoute, "{}")],
    ["because of an empty list of limits", policy(onRoute, "{ local: [] }")],
    ["at one rule", policy(onRoute.replace("name: chat", "name: chat, sectionName: main"), unknownField)],
  ])("closes its target: %s", async (_, document) => {
    const { gateway, statuses } = await start(document);
    expect(await statuses()).toEqual([503, 200, 200]);
    expect(gateway.records[0]).toMatchObject({
      reason: "PolicyRefused",
      rule: expect.stringContaining("chat") as string,
    });
  });

  test("names the reason to the client, and nothing of the policy", async () => {
    const { gateway } = await start(policy(onRoute, unknownField));
    const response = await fetch(`${gateway.url()}/chat`);
    expect(await response.text()).toBe("a policy of this route cannot be read");
  });

  test("closes a Gateway's routes if it is on the Gateway", async () => {
    const onGateway = "[{ group: gateway.networking.k8s.io, kind: Gateway, name: web }]";
    const { statuses } = await start(policy(onGateway, unknownField));
    expect(await statuses()).toEqual([503, 503, 503]);
  });

  test.each([
    ["17"],
    ["[]"],
    ["[17]"],
    ["[{ group: gateway.networking.k8s.io, kind: HTTPRoute, name: chat }, { kind: HTTPRoute }]"],
  ])("closes all targets in its namespace, and no other, if its targets cannot be read: %s", async (targetRefs) => {
    const ofRoutes = await start(policy(targetRefs, valid, "other"));
    expect(await ofRoutes.statuses()).toEqual([200, 200, 503]);
    // The Gateway of all routes is in this namespace.
    const ofGateway = await start(policy(targetRefs, valid));
    expect(await ofGateway.statuses()).toEqual([503, 503, 503]);
  });

  test.each([
    ["targets routes of its own namespace only", policy(onRoute, unknownField, "other")],
    ["is in shadow mode", policy(onRoute, "{ local: [{ requests: 5, unit: Hours, mode: Shadow, novelty: 1 }] }")],
  ])("closes nothing that it could not limit, if it %s", async (_, document) => {
    const { statuses } = await start(document);
    expect(await statuses()).toEqual([200, 200, 200]);
  });

  test("does not affect the targets of other policies", async () => {
    const other = policy(onRoute.replace("chat", "beside"), valid).replace("name: p", "name: q");
    const { gateway, statuses } = await start(policy(onRoute, unknownField), other);
    expect(await statuses()).toEqual([503, 200, 200]);
    expect((await fetch(`${gateway.url()}/beside`)).headers.get("x-ratelimit-remaining")).toBe("3");
  });
});

describe("a policy with readable and unreadable limits", () => {
  const invalid = "{ entries: [{ name: n, expression: request.nothing }] }";
  const descriptors = `descriptors: [{ entries: [{ name: r, expression: route }] }, ${invalid}]`;
  const partly = `{ global: { address: 127.0.0.1:9, domain: d, failureMode: Open, ${descriptors} } }`;

  test.each([
    ["a descriptor", partly],
    [
      "a descriptor, because of its cost",
      partly.replace("expression: request.nothing }] }", "expression: route }], cost: nothing }"),
    ],
    [
      "its global part, beside a local limit",
      badGlobal.replace("{ global", "{ local: [{ requests: 5, unit: Hours }], global"),
    ],
  ])("closes its target, since not all limits could apply: %s", async (_, rateLimit) => {
    const { statuses } = await start(policy(onRoute, rateLimit));
    expect(await statuses()).toEqual([503, 200, 200]);
  });

  test("closes nothing in shadow mode", async () => {
    const { statuses } = await start(policy(onRoute, partly.replace("domain: d", "domain: d, mode: Shadow")));
    expect(await statuses()).toEqual([200, 200, 200]);
  });
});
