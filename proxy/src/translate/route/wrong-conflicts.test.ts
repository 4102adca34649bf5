/** The search for route conflicts only reports: wrong results would not change which requests are served. */
import { expect, test, vi } from "vitest";
import type { Steps } from "@gatewayproxy/runtime/steps";
import { parseManifests } from "../../api/parse-manifests.ts";
import type { ComparedListener } from "../../routing/conflict-finder.ts";
import type { FoundConflicts } from "../../routing/conflicts/findings.ts";
import type { PathRules } from "../../routing/path-rules.ts";
import { translate } from "../translate.ts";

const wrong = vi.hoisted(() => ({ isOn: false }));

vi.mock(import("../../routing/conflict-finder.ts"), async (original) => {
  const { ConflictFinder } = await original();
  return {
    ConflictFinder: class extends ConflictFinder {
      override *find(listeners: readonly ComparedListener[], pathRules: PathRules): Steps<FoundConflicts> {
        if (!wrong.isOn) return yield* super.find(listeners, pathRules);
        const winner = { kind: "listener", listener: "none" } as const;
        const conflicts = [{ winner, decidedBy: "Listener", extent: "Whole" } as const];
        const byListener: FoundConflicts["byListener"] = new Map(
          listeners.map(({ key, routes: pages }) => {
            const routes = pages.flat();
            const reachesOf = (name: string) =>
              routes
                .find((route) => route.key === name)
                ?.rules.map(() => ({ isReachable: false, conflicts, leftOut: 0 }));
            return [key, { losers: routes.map((route) => route.key), reachesOf }];
          }),
        );
        return { byListener, unexamined: 0 };
      }
    },
  };
});

const text = `
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: gateway-proxy}
spec: {controllerName: gatewayproxy.dev/controller}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: web, namespace: default}
spec: {gatewayClassName: gateway-proxy, listeners: [{name: http, port: 80, protocol: HTTP}]}
---
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: {name: b, namespace: default}
spec: {static: {host: b.test, port: 80}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: chat, namespace: default}
spec:
  parentRefs: [{name: web}]
  rules:
    - name: first
      matches: [{path: {value: /chat}}]
      backendRefs: [{group: gatewayproxy.dev, kind: Backend, name: b}]
---
apiVersion: gatewayproxy.dev/v1alpha1
kind: ProxyPolicy
metadata: {name: limits, namespace: default}
spec:
  targetRefs:
    - {group: gateway.networking.k8s.io, kind: HTTPRoute, name: chat}
    - {group: gateway.networking.k8s.io, kind: HTTPRoute, name: chat, sectionName: first}
  traffic:
    rateLimit:
      local: [{requests: 1, unit: Minutes}]
      global:
        domain: d
        backendRef: {group: gatewayproxy.dev, kind: Backend, name: b}
        descriptors: [{entries: [{name: a, expression: source.address}]}]
`;

test("limits of a route that is wrongly reported as unreachable stay in force", () => {
  const { resources, problems } = parseManifests([{ path: "a.yaml", text }]);
  expect(problems).toEqual([]);
  const right = translate(resources);
  wrong.isOn = true;
  // Other values, for which no conflicts are known.
  const misled = translate(structuredClone(resources));
  // The report reaches the status.
  expect(JSON.stringify(right.statuses.proxyPolicies)).not.toContain("Shadowed");
  expect(JSON.stringify(misled.statuses.proxyPolicies)).toContain("Shadowed");
  const rules = misled.binds[0]?.listeners[0]?.routes[0]?.rules;
  expect(rules?.[0]?.limits).toHaveLength(2);
  expect(rules?.[0]?.globalLimits).toHaveLength(2);
  expect([misled.binds, misled.backends]).toEqual([right.binds, right.backends]);
});
