import { expect, test } from "vitest";
import { parseManifests } from "../../api/parse-manifests.ts";
import type { RouteStatus } from "../../api/status.ts";
import { clusterEnvironment } from "../environment.ts";
import { gatewayScope } from "../gateway/gateway-scope.ts";
import { maxServedPatternSize } from "./pattern-share.ts";
import { translate } from "../translate.ts";

const gateway = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: { name: web, namespace: infra }
spec:
  gatewayClassName: gateway-proxy
  listeners: [{ name: http, protocol: HTTP, port: 80, allowedRoutes: { namespaces: { from: All } } }]
`;

/** A route with one pattern of some 900 in each of four rules, and a last rule without any. */
function largeRoute(namespace: string, index: number, parent = "web"): string {
  const rules = [0, 1, 2, 3].map(
    (rule) => `  - matches: [{ path: { type: RegularExpression, value: "/${namespace}-${index}-${rule}/.{880}" } }]\n`,
  );
  return `---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: { name: r${index}, namespace: ${namespace}, creationTimestamp: "2026-01-01T00:00:${String(index).padStart(2, "0")}Z" }
spec:
  parentRefs: [{ name: ${parent}, namespace: infra }]
  rules:
${rules.join("")}  - matches: [{ path: { value: /${namespace}/${index} } }]
`;
}

function resourcesOf(...documents: readonly string[]) {
  const { resources, problems } = parseManifests([{ path: "test.yaml", text: documents.join("") }]);
  expect(problems).toEqual([]);
  return resources;
}

function translated(...documents: readonly string[]) {
  const { binds, statuses } = translate(resourcesOf(...documents));
  const rules = binds.flatMap(({ listeners }) =>
    listeners.flatMap(({ routes }) => routes.flatMap((each) => each.rules)),
  );
  const patterns = rules.flatMap(({ matches }) => matches.filter(({ path }) => path.kind === "RegularExpression"));
  const dropped = statuses.httpRoutes.flatMap(({ namespace, name, parents }) =>
    parents
      .flatMap(({ conditions }) => conditions.filter(({ type }) => type === "PartiallyInvalid"))
      .map((condition) => ({
        route: `${namespace}/${name}`,
        ...condition,
      })),
  );
  return { patterns: patterns.map(({ path }) => path.value), rules, dropped };
}

const many = (namespace: string, parent?: string) =>
  Array.from({ length: 20 }, (_, index) => largeRoute(namespace, index, parent)).join("");

test("the newest rules of a namespace above its share are rejected, each with the reason", () => {
  const { patterns, rules, dropped } = translated(gateway, many("greedy"));
  expect(patterns.length).toBeGreaterThan(20);
  expect(patterns.length * 885).toBeLessThan(maxServedPatternSize);
  expect(patterns.at(-1)).toBe("/greedy-8-2/.{880}");
  const newest = dropped.find(({ route }) => route === "greedy/r19");
  expect(newest).toMatchObject({ status: "True", reason: "UnsupportedValue" });
  expect(newest?.message).toMatch(/namespace greedy has a share of: accepted is a size of 32000 in all its routes/);
  // Its other rules are served.
  expect(rules.filter(({ matches }) => matches.some(({ path }) => path.kind === "PathPrefix"))).toHaveLength(20);
});

test("a namespace with a low demand gets it, whatever others demand and in any order", () => {
  const { patterns, dropped } = translated(gateway, many("greedy"), largeRoute("small", 59));
  expect(patterns.filter((source) => source.startsWith("/small"))).toHaveLength(4);
  expect(dropped.every(({ route }) => route.startsWith("greedy/"))).toBe(true);
});

test("routes that no listener takes have no part in it", () => {
  const { patterns, dropped } = translated(gateway, many("greedy", "elsewhere"), many("other"));
  expect(patterns.every((source) => source.startsWith("/other"))).toBe(true);
  expect(dropped[0]?.message).toContain("a size of 32000");
});

test("what the controller says of a Gateway in pods of its own is what its proxies do, whatever others serve", () => {
  const other = `---${gateway.replace("name: web", "name: other")}`;
  // On both Gateways, of which one has more patterns of its namespace than the other.
  const shared = largeRoute("greedy", 55).replace("parentRefs: [", "parentRefs: [{ name: other, namespace: infra }, ");
  const all = resourcesOf(gateway, other, many("greedy"), shared, largeRoute("small", 58, "other"));
  const environment = clusterEnvironment();
  const controller = translate(all, { environment });
  const dropped = new Set<string>();
  for (const name of ["web", "other"]) {
    const proxies = translate(gatewayScope(all, { namespace: "infra", name }), { environment });
    const ofGateway = ({ parents }: RouteStatus) => parents.filter(({ parentRef }) => parentRef.name === name);
    for (const status of proxies.statuses.httpRoutes) {
      const reported = controller.statuses.httpRoutes.find(
        (each) => each.namespace === status.namespace && each.name === status.name,
      );
      expect(reported && ofGateway(reported)).toEqual(status.parents);
      if (JSON.stringify(status).includes("PartiallyInvalid")) {
        dropped.add(`${name} ${status.namespace}/${status.name}`);
      }
    }
    const listeners = controller.binds.flatMap((bind) => bind.listeners);
    const served = proxies.binds.flatMap((bind) => bind.listeners);
    expect(served).toEqual(listeners.filter((listener) => listener.gateway.name === name));
  }
  expect(dropped).toContain("web greedy/r55");
  expect(dropped).not.toContain("other greedy/r55");
  const both = controller.statuses.httpRoutes.filter(({ namespace, name }) => namespace === "greedy" && name === "r55");
  expect(both).toHaveLength(1);
  expect(both[0]?.parents).toHaveLength(2);
});
