/** A policy with any invalid part closes its targets, or enforces some of its limits there. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { proxyGroup } from "../../api/names.ts";
import { parseResource } from "../../api/parse-resource.ts";
import type { ProxyPolicy } from "../../api/proxy-policy.ts";
import { isUnreadable } from "./policies.ts";

type Mode = "Enforce" | "Shadow";

const mode = fc.constantFrom<Mode>("Enforce", "Shadow");

/** `Expression` is one that does not compile; `Field` is one that this version does not know. */
const localEntry = fc.record({ mode, fault: fc.constantFrom(undefined, "Expression", "Field") });
const globalLimit = fc.record({
  mode,
  descriptors: fc.array(fc.boolean(), { minLength: 1, maxLength: 3 }),
  fault: fc.constantFrom(undefined, "Field"),
});
const generated = fc.record({
  local: fc.option(fc.array(localEntry, { maxLength: 3 }), { nil: undefined }),
  global: fc.option(globalLimit, { nil: undefined }),
  isNewer: fc.boolean(),
  place: fc.constantFrom("rateLimit", "traffic", "spec"),
});

function manifestOf({ local, global, isNewer, place }: typeof generated extends fc.Arbitrary<infer T> ? T : never) {
  const novelty = (at: string) => (isNewer && place === at ? { sliding: [{ requests: 5 }] } : {});
  const expression = (isFaulty: boolean) => (isFaulty ? "request.nothing" : "route");
  const rateLimit = {
    ...novelty("rateLimit"),
    ...(local && {
      local: local.map(({ mode: of, fault }) => ({
        ...{ requests: 5, unit: "Hours", mode: of },
        ...(fault === "Expression" && { key: "request.nothing" }),
        ...(fault === "Field" && { novelty: 1 }),
      })),
    }),
    ...(global && {
      global: {
        ...{ address: "192.0.2.1:9", domain: "d", mode: global.mode },
        ...(global.fault === "Field" && { novelty: 1 }),
        descriptors: global.descriptors.map((isFaulty) => ({
          entries: [{ name: "n", expression: expression(isFaulty) }],
        })),
      },
    }),
  };
  return {
    apiVersion: `${proxyGroup}/v1alpha1`,
    kind: "ProxyPolicy",
    metadata: { name: "p", namespace: "ns" },
    spec: {
      ...novelty("spec"),
      targetRefs: [{ group: "gateway.networking.k8s.io", kind: "HTTPRoute", name: "r" }],
      traffic: { ...novelty("traffic"), rateLimit },
    },
  };
}

/** Whether a policy denies requests: by a limit, or all of them. */
function canDeny(policy: ProxyPolicy): boolean {
  const { local, global } = policy.spec.traffic.rateLimit;
  const isSound = ({ entries }: NonNullable<typeof global>["descriptors"][number]) =>
    entries.every(({ expression }) => expression.errors.length === 0);
  return (
    isUnreadable(policy) ||
    local.some((entry) => entry.mode === "Enforce") ||
    (global?.mode === "Enforce" && global.descriptors.some(isSound))
  );
}

test("a policy that enforces limits denies requests, or closes its targets", () => {
  fc.assert(
    fc.property(generated, (policy) => {
      const parsed = parseResource(manifestOf(policy));
      const inForce = parsed.kind === "resource" ? parsed.resource : parsed.kind === "rejected" && parsed.remains;
      const { local, global, isNewer } = policy;
      const entries = [...(local ?? []), ...(global ? [global] : [])];
      const onlyCounts = entries.length > 0 && !isNewer && entries.every((entry) => entry.mode === "Shadow");
      const isEmptyList = local?.length === 0;
      if (onlyCounts && !isEmptyList) expect(inForce === undefined || !canDeny(inForce as ProxyPolicy)).toBe(true);
      else expect(inForce !== undefined && canDeny(inForce as ProxyPolicy)).toBe(true);
      // No limit stands in for another that cannot be read.
      const isLost = global?.mode === "Enforce" && global.descriptors.includes(true);
      if (isLost) expect(inForce !== undefined && isUnreadable(inForce as ProxyPolicy)).toBe(true);
    }),
    { numRuns: 500 },
  );
});
