import { describe, expect, test } from "vitest";
import type { Plan } from "./plan.ts";
import { ownedKey } from "./provision/owned-object.ts";
import { gateway, gatewayClass, plan, resourcesOf } from "./testing/planned-gateways.ts";

const planOf = (...manifests: readonly string[]): Plan => plan(resourcesOf(gatewayClass, ...manifests));

describe("a policy with a window of days", () => {
  const claim = (name: string) => `
apiVersion: v1
kind: ConfigMap
metadata: {name: ${name}, namespace: infra}
data: {persistentVolumeClaim: "spec: {resources: {requests: {storage: 2Gi}}}"}
---`;
  const shaped = { infrastructure: '{parametersRef: {group: "", kind: ConfigMap, name: shape}}' };
  const classWithVolumes = `
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: durable}
spec:
  controllerName: gatewayproxy.dev/controller
  parametersRef: {group: "", kind: ConfigMap, name: of-class, namespace: infra}
---`;
  const route = `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: r, namespace: infra}
spec: {parentRefs: [{name: web}, {name: other}], rules: [{filters: [{type: RequestRedirect, requestRedirect: {port: 1}}]}]}
---
apiVersion: gatewayproxy.dev/v1alpha1
kind: ProxyPolicy
metadata: {name: p, namespace: infra}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: r}]
  traffic: {rateLimit: {local: [{requests: 10, unit: Days}]}}
---`;
  const volatileOf = (...manifests: readonly string[]) =>
    planOf(...manifests, route)
      .statuses.proxyPolicies.flatMap(({ ancestors }) => ancestors.flatMap(({ conditions }) => conditions))
      .find(({ type }) => type === "VolatileCounters")?.message;

  test("reports the Gateways whose proxies have no volumes", () => {
    const message = (gateways: string) =>
      `the counters of local[0] start from zero with each start of a proxy of Gateway ${gateways}; persistentVolumeClaim in the parameters of a Gateway keeps them`;
    expect(volatileOf(gateway("web"), gateway("other"))).toBe(message("infra/other, infra/web"));
    expect(volatileOf(gateway("web", shaped), gateway("other"), claim("shape"))).toBe(message("infra/other"));
  });

  test("reports nothing if all have volumes, by the parameters of the class or their own", () => {
    const other = gateway("other", { className: "durable" });
    const manifests = [classWithVolumes, claim("of-class"), claim("shape"), gateway("web", shaped), other];
    expect(volatileOf(...manifests)).toBeUndefined();
    const { provision } = planOf(...manifests, route);
    expect(provision.desired.flatMap((each) => (each.kind === "StatefulSet" ? ownedKey(each) : []))).toEqual([
      ...["StatefulSet infra/other-durable", "StatefulSet infra/web-ours"],
    ]);
  });
});
