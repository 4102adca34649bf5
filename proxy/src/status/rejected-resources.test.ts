import { describe, expect, test } from "vitest";
import { controllerName, gatewayGroup } from "../api/names.ts";
import type { RejectedResource } from "../api/rejected-resource.ts";
import type { Condition, Statuses } from "../api/status.ts";
import { runToEnd } from "@gatewayproxy/runtime/steps";
import { withRejected } from "./rejected-resources.ts";

const accepted = {
  type: "Accepted",
  status: "True",
  reason: "Accepted",
  message: "yes",
  observedGeneration: 1,
} as const;
const programmed = { ...accepted, type: "Programmed", reason: "Programmed" } as const;
const web = { group: gatewayGroup, kind: "Gateway", name: "web" };

/** A Gateway of this controller with a route, and their statuses from the translation. */
const statuses: Statuses = {
  gatewayClasses: [{ name: "gateway-proxy", conditions: [accepted] }],
  gateways: [{ namespace: "default", name: "web", conditions: [accepted, programmed], listeners: [] }],
  listenerSets: [{ namespace: "default", name: "web", conditions: [accepted, programmed], listeners: [] }],
  httpRoutes: [
    { namespace: "default", name: "chat", parents: [{ parentRef: web, controllerName, conditions: [accepted] }] },
  ],
  grpcRoutes: [],
  tlsRoutes: [],
  tcpRoutes: [],
  udpRoutes: [],
  backendTlsPolicies: [
    {
      ...{ namespace: "default", name: "tls" },
      ancestors: [{ ancestorRef: { ...web, namespace: "default" }, controllerName, conditions: [accepted] }],
    },
  ],
  proxyPolicies: [],
  backends: [],
};

function rejectedObject(
  kind: string,
  name: string,
  spec: object,
  inForce: RejectedResource["inForce"] = "nothing",
  paths: readonly RejectedResource["errors"][number]["path"][] = [["spec", "x"]],
): RejectedResource {
  const metadata = { namespace: "default", name, generation: 7 };
  const errors = paths.map((path) => ({ path, message: "not so", isUnknownField: false }));
  return { object: { kind, metadata, spec }, errors, inForce };
}

const rejecting = (before: Statuses, rejected: readonly RejectedResource[]): Statuses =>
  runToEnd(withRejected(before, rejected));

const rejection = (reason: string, message = "spec.x: not so"): Condition => ({
  ...{ type: "Accepted", status: "False", observedGeneration: 7 },
  ...{ reason, message },
});

describe("a rejected HTTPRoute", () => {
  test("is not accepted by any parent of this controller, with the reason", () => {
    const parentRefs = [
      { name: "web", sectionName: "https", port: 443 },
      { name: "theirs" },
      { kind: "Service", group: "", name: "web" },
    ];
    const { httpRoutes } = rejecting(statuses, [rejectedObject("HTTPRoute", "new", { parentRefs })]);
    expect(httpRoutes.find(({ name }) => name === "new")).toEqual({
      namespace: "default",
      name: "new",
      parents: [
        {
          parentRef: { ...web, sectionName: "https", port: 443 },
          controllerName,
          conditions: [rejection("UnsupportedValue")],
        },
      ],
    });
  });

  test("reports the version that is in force instead", () => {
    const route = rejectedObject("HTTPRoute", "chat", { parentRefs: [web] }, "lastValidVersion");
    const [status] = rejecting(statuses, [route]).httpRoutes;
    const kept = "spec.x: not so; the last valid version stays in force where it is known";
    expect(status?.parents[0]?.conditions).toEqual([rejection("UnsupportedValue", kept)]);
  });

  test("of which some rules are served is accepted, and names the others", () => {
    const paths = [
      ["spec", "rules", 2, "matches", 0],
      ["spec", "rules", 0, "name"],
    ];
    const route = rejectedObject("HTTPRoute", "chat", { parentRefs: [web] }, "validRules", paths);
    const [status] = rejecting(statuses, [route]).httpRoutes;
    expect(status?.parents[0]?.conditions).toEqual([
      accepted,
      {
        type: "PartiallyInvalid",
        status: "True",
        reason: "UnsupportedValue",
        message:
          "Dropped Rule 0 (spec.rules[0].name: not so), 2 (spec.rules[2].matches[0]: not so): requests that match it get a 500 response",
        observedGeneration: 7,
      },
    ]);
  });

  test("of which some rules are served reports nothing more where its parent rejects it anyway", () => {
    const denied = { ...accepted, status: "False", reason: "NotAllowedByListeners" } as const;
    const parents = [{ parentRef: web, controllerName, conditions: [denied] }];
    const before = { ...statuses, httpRoutes: [{ namespace: "default", name: "chat", parents }] };
    const route = rejectedObject("HTTPRoute", "chat", {}, "validRules", [["spec", "rules", 0]]);
    expect(rejecting(before, [route])).toEqual(before);
  });
});

test.each([
  ["Gateway", "lastValidVersion", "; the last valid version stays in force where it is known"],
  ["Gateway", "remains", "; nothing of it is served where no valid version is known"],
  ["ListenerSet", "lastValidVersion", "; the last valid version stays in force where it is known"],
  ["ListenerSet", "remains", "; nothing of it is served where no valid version is known"],
] as const)(
  "a rejected %s is not accepted and keeps the conditions of the version in force (%s)",
  (kind, inForce, rest) => {
    const after = rejecting(statuses, [rejectedObject(kind, "web", {}, inForce)]);
    const [status] = kind === "Gateway" ? after.gateways : after.listenerSets;
    expect(status?.conditions).toEqual([rejection("Invalid", `spec.x: not so${rest}`), programmed]);
  },
);

test.each([
  ["lastValidVersion", "; the last valid version stays in force where it is known"],
  ["remains", "; the workloads of its Gateways stay as they are where no valid version is known"],
] as const)("a rejected GatewayClass is not accepted (%s)", (inForce, rest) => {
  const { gatewayClasses } = rejecting(statuses, [rejectedObject("GatewayClass", "gateway-proxy", {}, inForce)]);
  expect(gatewayClasses[0]?.conditions).toEqual([rejection("InvalidParameters", `spec.x: not so${rest}`)]);
});

test.each(["GatewayClass", "Gateway", "ListenerSet"])("a rejected %s of another controller gets no status", (kind) => {
  expect(rejecting(statuses, [rejectedObject(kind, "theirs", {})])).toEqual(statuses);
});

test("a rejected BackendTLSPolicy is not accepted at any ancestor of the version in force", () => {
  const [status] = rejecting(statuses, [
    rejectedObject("BackendTLSPolicy", "tls", {}, "lastValidVersion"),
  ]).backendTlsPolicies;
  expect(status?.ancestors[0]?.conditions).toMatchObject([{ reason: "Invalid", observedGeneration: 7 }]);
});

test("one that was never sound says that its targets are not called", () => {
  const [status] = rejecting(statuses, [rejectedObject("BackendTLSPolicy", "tls", {}, "remains")]).backendTlsPolicies;
  const message = "spec.x: not so; its targets are not called where no valid version is known";
  expect(status?.ancestors[0]?.conditions).toEqual([rejection("Invalid", message)]);
});

test("a rejected Backend is not accepted", () => {
  const { backends } = rejecting(statuses, [rejectedObject("Backend", "llm", {})]);
  expect(backends).toEqual([{ namespace: "default", name: "llm", conditions: [rejection("Invalid")] }]);
});

test("a rejected ProxyPolicy is attached to nothing", () => {
  const targetRefs = [{ kind: "HTTPRoute", name: "chat" }];
  const [status] = rejecting(statuses, [rejectedObject("ProxyPolicy", "limits", { targetRefs })]).proxyPolicies;
  expect(status?.ancestors[0]?.conditions).toMatchObject([
    { type: "Accepted", reason: "Invalid" },
    { type: "Attached", status: "False", message: "this version of the policy is not enforced" },
  ]);
});

test("an object that is not rejected keeps its status", () => {
  expect(rejecting(statuses, [])).toEqual(statuses);
});

describe("a policy", () => {
  const policyOn = (target: string, reason: "Attached" | "TargetNotFound"): Statuses["proxyPolicies"][number] => ({
    ...{ namespace: "default", name: "limits" },
    ancestors: [
      {
        ancestorRef: { group: gatewayGroup, kind: "HTTPRoute", namespace: "default", name: target },
        controllerName,
        conditions: [
          { type: "Accepted", status: "True", reason: "Valid", message: "" },
          {
            type: "Attached",
            status: reason === "Attached" ? "True" : "False",
            reason,
            message: "",
            observedGeneration: 2,
          },
        ],
      },
    ],
  });
  const withPolicy = (policy: Statuses["proxyPolicies"][number]) => ({ ...statuses, proxyPolicies: [policy] });

  test('on a rejected route is pending instead of "not found"', () => {
    const route = rejectedObject("HTTPRoute", "new", { parentRefs: [web] });
    const [policy] = rejecting(withPolicy(policyOn("new", "TargetNotFound")), [route]).proxyPolicies;
    expect(policy?.ancestors[0]?.conditions).toEqual([
      { type: "Accepted", status: "True", reason: "Valid", message: "" },
      {
        ...{ type: "Attached", status: "False", reason: "Pending", observedGeneration: 2 },
        message: "HTTPRoute new is rejected: spec.x: not so",
      },
    ]);
  });

  test.each([
    ["that is not there", policyOn("nowhere", "TargetNotFound"), rejectedObject("HTTPRoute", "new", {})],
    [
      "of another kind than the rejected object",
      policyOn("new", "TargetNotFound"),
      rejectedObject("Gateway", "new", {}),
    ],
    [
      "whose last sound version is served",
      policyOn("chat", "Attached"),
      rejectedObject("HTTPRoute", "chat", {}, "lastValidVersion"),
    ],
  ])("on a target %s keeps its status", (_, policy, object) => {
    expect(rejecting(withPolicy(policy), [object]).proxyPolicies).toEqual([policy]);
  });
});
