import { describe, expect, test } from "vitest";
import { parseManifests } from "../api/parse-manifests.ts";
import { translate } from "../translate/translate.ts";
import { policySummary } from "./policy-summary.ts";

const enforced = "local: [{requests: 10, unit: Minutes}, {tokens: 500, unit: Hours}]";

function summaryOf(targets: string, rateLimit = enforced) {
  const text = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: web}
spec: {gatewayClassName: gateway-proxy, listeners: [{name: http, port: 80, protocol: HTTP}]}
---
apiVersion: gatewayproxy.dev/v1alpha1
kind: ProxyPolicy
metadata: {name: limits}
spec:
  targetRefs: [${targets}]
  traffic: {rateLimit: {${rateLimit}}}
`;
  const { resources } = parseManifests([{ path: "a.yaml", text }]);
  const [policy] = resources.ProxyPolicy;
  const [status] = translate(resources).statuses.proxyPolicies;
  if (policy === undefined || status === undefined) throw new Error("the policy was rejected");
  return policySummary(policy, status);
}

const web = "{group: gateway.networking.k8s.io, kind: Gateway, name: web}";
const nowhere = "{group: gateway.networking.k8s.io, kind: HTTPRoute, name: nowhere, sectionName: first}";

describe("policySummary()", () => {
  test("shows target, limits and outcome", () => {
    expect(summaryOf(web)).toEqual({
      target: "Gateway/web",
      limits: "10 requests/Minute, 500 tokens/Hour",
      accepted: "True",
      attached: "True",
    });
  });

  test("has one request and one token in the singular", () => {
    expect(summaryOf(web, "local: [{requests: 1, unit: Minutes, burst: 2}, {tokens: 1, unit: Hours}]")).toMatchObject({
      limits: "1 request/Minute + 2 burst, 1 token/Hour",
    });
  });

  test("shows the kind and the length of windows", () => {
    const local =
      "local: [{requests: 1, unit: Minutes, every: 5, window: Sliding}, {tokens: 9, unit: Months, window: Calendar}]";
    expect(summaryOf(web, local)).toMatchObject({ limits: "1 request/sliding 5 Minutes, 9 tokens/calendar Month" });
  });

  test("marks a limit that denies nothing", () => {
    const global =
      "global: {address: 'h:1', mode: Shadow, domain: d, descriptors: [{entries: [{name: a, expression: source.address}]}]}";
    const rateLimit = `local: [{requests: 10, unit: Minutes, mode: Shadow}, {requests: 9, unit: Minutes}], ${global}`;
    expect(summaryOf(web, rateLimit)).toMatchObject({
      limits: "10 requests/Minute (shadow), 9 requests/Minute, global (shadow)",
    });
  });

  test("shows on how many of several targets it is enforced", () => {
    expect(summaryOf(`${web}, ${nowhere}`)).toMatchObject({
      target: "Gateway/web, HTTPRoute/nowhere#first",
      attached: "1/2",
    });
    expect(summaryOf(nowhere)).toMatchObject({ attached: "False" });
  });

  test("shows the targets of a policy that cannot be read, and no limits", () => {
    const ancestorRef = { group: "gateway.networking.k8s.io", kind: "HTTPRoute", namespace: "default", name: "chat" };
    const rejected = { type: "Accepted", status: "False", reason: "Invalid", message: "" } as const;
    const status = {
      ...{ namespace: "default", name: "limits" },
      ancestors: [{ ancestorRef, controllerName: "gatewayproxy.dev/controller", conditions: [rejected] }],
    };
    expect(policySummary(undefined, status)).toEqual({
      ...{ target: "HTTPRoute/chat", limits: "", accepted: "False", attached: "False" },
    });
  });
});
