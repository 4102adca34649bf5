import { describe, expect, test } from "vitest";
import { parseResource } from "../api/parse-resource.ts";
import type { ProxyPolicy } from "../api/proxy-policy.ts";
import type { AncestorStatus } from "../api/status.ts";
import { summarizePolicy } from "./policy-summary.ts";

function policy(rateLimit: object, targetRefs: readonly object[] = [route]): ProxyPolicy {
  const parsed = parseResource({
    apiVersion: "gatewayproxy.dev/v1alpha1",
    kind: "ProxyPolicy",
    metadata: { name: "limits" },
    spec: { targetRefs, traffic: { rateLimit } },
  });
  if (parsed.kind !== "resource" || parsed.resource.kind !== "ProxyPolicy") throw new Error("not a policy");
  return parsed.resource;
}

const route = { group: "gateway.networking.k8s.io", kind: "HTTPRoute", name: "chat" };
const requests = { requests: 10, unit: "Minutes", burst: 5 };

function ancestor(attached: "True" | "False"): AncestorStatus {
  return {
    ancestorRef: { ...route, namespace: "default" },
    controllerName: "gatewayproxy.dev/controller",
    conditions: [
      { type: "Accepted", status: "True", reason: "Valid", message: "" },
      { type: "Attached", status: attached, reason: attached === "True" ? "Attached" : "Pending", message: "" },
    ],
  };
}

describe("the summary of a policy", () => {
  test("names its targets and its limits", () => {
    const limits = [requests, { tokens: 1000, unit: "Hours", mode: "Shadow" }];
    const targets = [route, { ...route, kind: "Gateway", name: "edge", sectionName: "https" }];
    expect(summarizePolicy(policy({ local: limits }, targets), [])).toMatchObject({
      target: "HTTPRoute/chat, Gateway/edge#https",
      limits: "10/min+5, 1000 tokens/h (Shadow)",
    });
  });

  test("names the domain of a global limit", () => {
    const entries = [{ name: "a", expression: "source.address" }];
    const global = { address: "127.0.0.1:1", domain: "chat", descriptors: [{ entries }] };
    expect(summarizePolicy(policy({ global }), []).limits).toBe("global chat");
  });

  test.each([
    ["True where it is enforced at every target", ["True", "True"], "True"],
    ["False where it is enforced at none", ["False", "False"], "False"],
    ["a count where it is enforced at some", ["True", "False"], "1 of 2"],
    ["Unknown before it has been judged", [], "Unknown"],
  ] as const)("says %s", (_, attached, expected) => {
    expect(summarizePolicy(policy({ local: [requests] }), attached.map(ancestor)).attached).toBe(expected);
  });
});
