/** The maximum number of limits of all policies on a target, and the effect on policies that exceed it. */
import { expect, test } from "vitest";
import { parseManifests } from "../../api/parse-manifests.ts";
import type { RefusedPolicies } from "../context.ts";
import { translate } from "../translate.ts";

const gateway = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: { name: web }
spec: { gatewayClassName: gateway-proxy, listeners: [{ name: http, port: 80, protocol: HTTP }] }
`;
const route = (name: string) => `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: { name: ${name} }
spec: { parentRefs: [{ name: web }], rules: [{}] }
`;

function policy(number: number, target: string, rateLimit: string): string {
  const created = new Date(Date.UTC(2026, 0, number + 1)).toISOString();
  return `
apiVersion: gatewayproxy.dev/v1alpha1
kind: ProxyPolicy
metadata: { name: p${number}, creationTimestamp: "${created}" }
spec:
  targetRefs: [{ group: gateway.networking.k8s.io, ${target} }]
  traffic: { rateLimit: ${rateLimit} }
`;
}

const local = (count: number, mode = "Enforce") =>
  `{ local: [${Array.from({ length: count }, (_, at) => `{ requests: ${at + 1}, unit: Hours, mode: ${mode} }`).join(", ")}] }`;
const global = (count: number) =>
  `{ global: { address: "192.0.2.1:80", domain: d, failureMode: Closed, descriptors: [${Array(count).fill("{ entries: [{ name: a, expression: request.method }] }").join(", ")}] } }`;

function outcome(texts: readonly string[], refusedPolicies: RefusedPolicies = "Closed") {
  const { resources, problems } = parseManifests([{ path: "m.yaml", text: [gateway, ...texts].join("---") }]);
  expect(problems).toEqual([]);
  const { binds, statuses } = translate(resources, { refusedPolicies });
  const routes = binds[0]?.listeners[0]?.routes ?? [];
  return {
    rules: routes.map(({ name, rules: [rule] }) => ({
      name,
      local: rule?.limits.length,
      global: rule?.globalLimits?.flatMap(({ descriptors }) => descriptors).length ?? 0,
      closedBy: rule?.refusedPolicies ?? [],
    })),
    attached: statuses.proxyPolicies.map(({ name, ancestors: [ancestor] }) => {
      const condition = ancestor?.conditions.find(({ type }) => type === "Attached");
      return `${name} ${condition?.reason ?? ""}: ${condition?.message ?? ""}`;
    }),
  };
}

const onRoute = "kind: HTTPRoute, name: r";

test("64 local entries of several policies are in force", () => {
  const { rules, attached } = outcome([route("r"), ...[0, 1, 2, 3].map((at) => policy(at, onRoute, local(16)))]);
  expect(rules).toEqual([{ name: "r", local: 64, global: 0, closedBy: [] }]);
  expect(attached.every((text) => text.includes(" Attached: "))).toBe(true);
});

test.each([
  ["local entries", local(16), local(1)],
  ["global descriptors", global(16), global(1)],
])("the youngest policy that exceeds 64 %s is not attached to that target only", (what, full, one) => {
  const policies = [0, 1, 2, 3].map((at) => policy(at, onRoute, full));
  const { rules, attached } = outcome([
    ...[route("r"), route("other"), ...policies, policy(4, onRoute, one)],
    policy(5, "kind: HTTPRoute, name: other", one),
  ]);
  expect(rules.find(({ name }) => name === "r")).toMatchObject({ closedBy: ["default/p4"] });
  expect(rules.find(({ name }) => name === "other")).toMatchObject({ closedBy: [] });
  const [reported] = attached.filter((text) => text.includes("TooManyLimits"));
  expect(reported).toBe(
    `p4 TooManyLimits: with this policy HTTPRoute/default/r has 65 ${what}, accepted are at most 64 of all policies together; HTTPRoute/default/r responds with 503 (--refused-policies)`,
  );
});

test.each<[string, string, RefusedPolicies]>([
  ["one that only watches", local(1, "Shadow"), "Closed"],
  ["with --refused-policies Open any one", local(1), "Open"],
])("%s does not close its target", (_, beyond, refusedPolicies) => {
  const policies = [0, 1, 2, 3].map((at) => policy(at, onRoute, local(16)));
  const { rules, attached } = outcome([route("r"), ...policies, policy(4, onRoute, beyond)], refusedPolicies);
  expect(rules).toEqual([{ name: "r", local: 64, global: 0, closedBy: [] }]);
  expect(attached.join()).toContain("HTTPRoute/default/r is served without this policy");
});

test("a route's policies take nothing from those of its Gateway", () => {
  const { rules } = outcome([
    route("r"),
    ...[0, 1, 2, 3].map((at) => policy(at, onRoute, local(16))),
    policy(4, "kind: Gateway, name: web", local(16)),
  ]);
  expect(rules).toEqual([{ name: "r", local: 80, global: 0, closedBy: [] }]);
});
