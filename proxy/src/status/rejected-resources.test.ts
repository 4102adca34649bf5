import { describe, expect, test } from "vitest";
import { controllerName, gatewayGroup } from "../api/names.ts";
import type { RejectedResource } from "../api/rejected-resource.ts";
import type { Condition, Statuses } from "../api/status.ts";
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

/** A Gateway of ours with a route, as translation judges them. */
const statuses: Statuses = {
  gatewayClasses: [{ name: "gateway-proxy", conditions: [accepted] }],
  gateways: [{ namespace: "default", name: "web", conditions: [accepted, programmed], listeners: [] }],
  listenerSets: [{ namespace: "default", name: "web", conditions: [accepted, programmed], listeners: [] }],
  httpRoutes: [
    { namespace: "default", name: "chat", parents: [{ parentRef: web, controllerName, conditions: [accepted] }] },
  ],
  backendTlsPolicies: [
    {
      ...{ namespace: "default", name: "tls" },
      ancestors: [{ ancestorRef: { ...web, namespace: "default" }, controllerName, conditions: [accepted] }],
    },
  ],
  proxyPolicies: [],
  backends: [],
};

function refused(
  kind: string,
  name: string,
  spec: object,
  inForce: RejectedResource["inForce"] = "nothing",
  paths: readonly RejectedResource["faults"][number]["path"][] = [["spec", "x"]],
): RejectedResource {
  const metadata = { namespace: "default", name, generation: 7 };
  const faults = paths.map((path) => ({ path, message: "not so", isUnknownField: false }));
  return { object: { kind, metadata, spec }, faults, inForce };
}

const refusal = (reason: string, message = "spec.x: not so"): Condition => ({
  ...{ type: "Accepted", status: "False", observedGeneration: 7 },
  ...{ reason, message },
});

describe("a refused HTTPRoute", () => {
  test("is not accepted by any parent of ours, and says why", () => {
    const parentRefs = [
      { name: "web", sectionName: "https", port: 443 },
      { name: "theirs" },
      { kind: "Service", group: "", name: "web" },
    ];
    const { httpRoutes } = withRejected(statuses, [refused("HTTPRoute", "new", { parentRefs })]);
    expect(httpRoutes.find(({ name }) => name === "new")).toEqual({
      namespace: "default",
      name: "new",
      parents: [
        {
          parentRef: { ...web, sectionName: "https", port: 443 },
          controllerName,
          conditions: [refusal("UnsupportedValue")],
        },
      ],
    });
  });

  test("tells of the version that is in force in its place", () => {
    const route = refused("HTTPRoute", "chat", { parentRefs: [web] }, "lastSoundVersion");
    const [status] = withRejected(statuses, [route]).httpRoutes;
    const kept = "spec.x: not so; the last sound version stays in force where it is known";
    expect(status?.parents[0]?.conditions).toEqual([refusal("UnsupportedValue", kept)]);
  });

  test("of which some rules are served is accepted, and names the others", () => {
    const paths = [
      ["spec", "rules", 2, "matches", 0],
      ["spec", "rules", 0, "name"],
    ];
    const route = refused("HTTPRoute", "chat", { parentRefs: [web] }, "soundRules", paths);
    const [status] = withRejected(statuses, [route]).httpRoutes;
    expect(status?.parents[0]?.conditions).toEqual([
      accepted,
      {
        type: "PartiallyInvalid",
        status: "True",
        reason: "UnsupportedValue",
        message:
          "Dropped Rule 0 (spec.rules[0].name: not so), 2 (spec.rules[2].matches[0]: not so): requests that match it are answered with 500",
        observedGeneration: 7,
      },
    ]);
  });

  test("of which some rules are served says nothing more where its parent refuses it anyway", () => {
    const denied = { ...accepted, status: "False", reason: "NotAllowedByListeners" } as const;
    const parents = [{ parentRef: web, controllerName, conditions: [denied] }];
    const before = { ...statuses, httpRoutes: [{ namespace: "default", name: "chat", parents }] };
    const route = refused("HTTPRoute", "chat", {}, "soundRules", [["spec", "rules", 0]]);
    expect(withRejected(before, [route])).toEqual(before);
  });
});

test.each([
  ["Gateway", "lastSoundVersion", "; the last sound version stays in force where it is known"],
  ["Gateway", "remains", "; nothing of it is served where no sound version is known"],
  ["ListenerSet", "lastSoundVersion", "; the last sound version stays in force where it is known"],
  ["ListenerSet", "remains", "; nothing of it is served where no sound version is known"],
] as const)(
  "a refused %s is not accepted and goes on telling how what is in force is served (%s)",
  (kind, inForce, rest) => {
    const after = withRejected(statuses, [refused(kind, "web", {}, inForce)]);
    const [status] = kind === "Gateway" ? after.gateways : after.listenerSets;
    expect(status?.conditions).toEqual([refusal("Invalid", `spec.x: not so${rest}`), programmed]);
  },
);

test.each([
  ["lastSoundVersion", "; the last sound version stays in force where it is known"],
  ["remains", "; what runs for its Gateways is left as it is where no sound version is known"],
] as const)("a refused GatewayClass is not accepted (%s)", (inForce, rest) => {
  const { gatewayClasses } = withRejected(statuses, [refused("GatewayClass", "gateway-proxy", {}, inForce)]);
  expect(gatewayClasses[0]?.conditions).toEqual([refusal("InvalidParameters", `spec.x: not so${rest}`)]);
});

test.each(["GatewayClass", "Gateway", "ListenerSet"])("a refused %s of others has no status of ours", (kind) => {
  expect(withRejected(statuses, [refused(kind, "theirs", {})])).toEqual(statuses);
});

test("a refused BackendTLSPolicy is not accepted at any ancestor of the version in force", () => {
  const [status] = withRejected(statuses, [
    refused("BackendTLSPolicy", "tls", {}, "lastSoundVersion"),
  ]).backendTlsPolicies;
  expect(status?.ancestors[0]?.conditions).toMatchObject([{ reason: "Invalid", observedGeneration: 7 }]);
});

test("one that was never sound says that its targets are not called", () => {
  const [status] = withRejected(statuses, [refused("BackendTLSPolicy", "tls", {}, "remains")]).backendTlsPolicies;
  const message = "spec.x: not so; its targets are not called where no sound version is known";
  expect(status?.ancestors[0]?.conditions).toEqual([refusal("Invalid", message)]);
});

test("a refused Backend is not accepted", () => {
  const { backends } = withRejected(statuses, [refused("Backend", "llm", {})]);
  expect(backends).toEqual([{ namespace: "default", name: "llm", conditions: [refusal("Invalid")] }]);
});

test("a refused ProxyPolicy is attached to nothing", () => {
  const targetRefs = [{ kind: "HTTPRoute", name: "chat" }];
  const [status] = withRejected(statuses, [refused("ProxyPolicy", "limits", { targetRefs })]).proxyPolicies;
  expect(status?.ancestors[0]?.conditions).toMatchObject([
    { type: "Accepted", reason: "Invalid" },
    { type: "Attached", status: "False", message: "this version of the policy is not enforced" },
  ]);
});

test("what is not refused keeps its status", () => {
  expect(withRejected(statuses, [])).toEqual(statuses);
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

  test("on a route that is refused waits for it, instead of not finding it", () => {
    const route = refused("HTTPRoute", "new", { parentRefs: [web] });
    const [policy] = withRejected(withPolicy(policyOn("new", "TargetNotFound")), [route]).proxyPolicies;
    expect(policy?.ancestors[0]?.conditions).toEqual([
      { type: "Accepted", status: "True", reason: "Valid", message: "" },
      {
        ...{ type: "Attached", status: "False", reason: "Pending", observedGeneration: 2 },
        message: "HTTPRoute new is refused: spec.x: not so",
      },
    ]);
  });

  test.each([
    ["that is not there", policyOn("nowhere", "TargetNotFound"), refused("HTTPRoute", "new", {})],
    ["of another kind than the refused object", policyOn("new", "TargetNotFound"), refused("Gateway", "new", {})],
    [
      "whose last sound version is served",
      policyOn("chat", "Attached"),
      refused("HTTPRoute", "chat", {}, "lastSoundVersion"),
    ],
  ])("on a target %s stays as it is judged", (_, policy, object) => {
    expect(withRejected(withPolicy(policy), [object]).proxyPolicies).toEqual([policy]);
  });
});
