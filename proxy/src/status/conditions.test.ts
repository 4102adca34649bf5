import { runToEnd } from "@gatewayproxy/runtime/steps";
import { describe, expect, test } from "vitest";
import type { Condition, Statuses } from "../api/status.ts";
import { changedStatusLines, mergeConditions, type TimedCondition } from "./conditions.ts";

const now = "2026-02-01T00:00:00Z";
const earlier = "2026-01-01T00:00:00Z";

function condition(type: string, status: Condition["status"], message = "", observedGeneration = 1): Condition {
  return { type, status, reason: status === "True" ? "Good" : "Bad", message, observedGeneration };
}

function timed(value: Condition, lastTransitionTime = earlier): TimedCondition {
  return { ...value, lastTransitionTime };
}

describe("mergeConditions()", () => {
  test("a new condition gets the current time", () => {
    expect(mergeConditions([condition("Accepted", "True")], [], [], now)).toEqual([
      timed(condition("Accepted", "True"), now),
    ]);
  });

  test("a condition with the same status keeps its time when its reason or message changes", () => {
    const merged = mergeConditions(
      [condition("Accepted", "False", "two errors", 2)],
      [timed(condition("Accepted", "False", "one error", 1))],
      [],
      now,
    );
    expect(merged).toEqual([timed(condition("Accepted", "False", "two errors", 2), earlier)]);
  });

  test("a condition whose status changes gets the current time", () => {
    const merged = mergeConditions([condition("Accepted", "True")], [timed(condition("Accepted", "False"))], [], now);
    expect(merged).toEqual([timed(condition("Accepted", "True"), now)]);
  });

  test("types of other writers stay, owned types that are absent now are removed", () => {
    const foreign = timed(condition("special.io/Field", "True"));
    const merged = mergeConditions(
      [condition("Accepted", "True")],
      [foreign, timed(condition("PartiallyInvalid", "True"))],
      ["Accepted", "PartiallyInvalid"],
      now,
    );
    expect(merged).toEqual([timed(condition("Accepted", "True"), now), foreign]);
  });
});

const none: Statuses = {
  gatewayClasses: [],
  gateways: [],
  listenerSets: [],
  httpRoutes: [],
  grpcRoutes: [],
  tlsRoutes: [],
  tcpRoutes: [],
  udpRoutes: [],
  backendTlsPolicies: [],
  proxyPolicies: [],
  backends: [],
};

const statuses: Statuses = {
  gatewayClasses: [
    { name: "gateway-proxy", conditions: [{ type: "Accepted", status: "True", reason: "Accepted", message: "yes" }] },
  ],
  listenerSets: [],
  gateways: [
    {
      namespace: "infra",
      name: "web",
      conditions: [{ type: "Programmed", status: "True", reason: "Programmed", message: "1 of 1" }],
      listeners: [
        {
          name: "http",
          supportedKinds: [],
          attachedRoutes: 1,
          conditions: [{ type: "Conflicted", status: "False", reason: "NoConflicts", message: "none" }],
        },
      ],
    },
  ],
  httpRoutes: [
    {
      namespace: "default",
      name: "chat",
      parents: [
        {
          parentRef: { group: "", kind: "Gateway", namespace: "infra", name: "web", sectionName: "http", port: 80 },
          controllerName: "c",
          conditions: [
            { type: "Accepted", status: "True", reason: "Accepted", message: "yes", observedGeneration: 4 },
            { type: "ResolvedRefs", status: "False", reason: "BackendNotFound", message: "no Service a" },
          ],
        },
      ],
    },
  ],
  grpcRoutes: [],
  tlsRoutes: [],
  tcpRoutes: [],
  udpRoutes: [],
  backendTlsPolicies: [],
  proxyPolicies: [
    {
      namespace: "default",
      name: "limits",
      ancestors: [
        {
          ancestorRef: { group: "", kind: "HTTPRoute", namespace: "default", name: "chat", sectionName: "first" },
          controllerName: "c",
          conditions: [{ type: "Attached", status: "True", reason: "Attached", message: "yes" }],
        },
      ],
    },
  ],
  backends: [],
};

describe("changedStatusLines()", () => {
  test("reports every condition at first, with the object and the parent, target or listener", () => {
    expect(runToEnd(changedStatusLines(statuses, undefined))).toMatchObject([
      { resource: "GatewayClass gateway-proxy", condition: "Accepted" },
      { resource: "Gateway infra/web", condition: "Programmed" },
      { resource: "Gateway infra/web", of: "listener http", condition: "Conflicted", status: "False" },
      {
        resource: "HTTPRoute default/chat",
        of: "Gateway infra/web#http:80",
        condition: "Accepted",
        observedGeneration: 4,
      },
      { resource: "HTTPRoute default/chat", of: "Gateway infra/web#http:80", reason: "BackendNotFound" },
      { resource: "ProxyPolicy default/limits", of: "HTTPRoute default/chat#first", condition: "Attached" },
    ]);
  });

  test("reports nothing when nothing changed or objects were deleted", () => {
    expect(runToEnd(changedStatusLines(structuredClone(statuses), statuses))).toEqual([]);
    expect(runToEnd(changedStatusLines(none, statuses))).toEqual([]);
  });

  test("reports only the condition that changed, even if only its message did", () => {
    const changed = JSON.parse(JSON.stringify(statuses).replace("no Service a", "no Service b")) as Statuses;
    expect(runToEnd(changedStatusLines(changed, statuses))).toEqual([
      {
        resource: "HTTPRoute default/chat",
        of: "Gateway infra/web#http:80",
        condition: "ResolvedRefs",
        status: "False",
        reason: "BackendNotFound",
        message: "no Service b",
      },
    ]);
  });
});
