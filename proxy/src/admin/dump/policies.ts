/** Dumps policies as declared, their targets, and their global limits as enforced. */
import { objectKey } from "@gatewayproxy/runtime/object-key";
import { mapInSteps, type Steps } from "@gatewayproxy/runtime/steps";
import type { DumpedPolicy } from "@gatewayproxy/admin-api/config-dump";
import type { ProxyPolicy } from "../../api/proxy-policy.ts";
import type { AncestorStatus } from "../../api/status.ts";
import type { GlobalLimit } from "../../ir/global-limit.ts";
import type { LocalLimit } from "../../ir/limit.ts";
import { globalLimitsOf } from "../snapshot-limits.ts";
import type { ConfigurationState } from "./input.ts";

export function* dumpPolicies(configuration: ConfigurationState): Steps<readonly DumpedPolicy[]> {
  const globals = new Map(globalLimitsOf(configuration.snapshot).map((limit) => [limit.policy, limit]));
  const declared = new Map(configuration.resources.ProxyPolicy.map((policy) => [objectKey(policy.metadata), policy]));
  return yield* mapInSteps(configuration.statuses.proxyPolicies, (status) => {
    const key = objectKey(status);
    const global = globals.get(key);
    return {
      namespace: status.namespace,
      name: status.name,
      targets: status.ancestors.map(dumpTarget),
      local: localEntries(declared.get(key)),
      ...(global !== undefined && { global: dumpGlobal(global) }),
    };
  });
}

function dumpTarget({ ancestorRef, conditions }: AncestorStatus): DumpedPolicy["targets"][number] {
  const { kind, namespace, name, sectionName } = ancestorRef;
  return {
    target: `${kind}/${namespace}/${name}${sectionName === undefined ? "" : `#${sectionName}`}`,
    isAttached: conditions.some(({ type, status }) => type === "Attached" && status === "True"),
    conditions,
  };
}

function localEntries(policy: ProxyPolicy | undefined): DumpedPolicy["local"] {
  return (policy?.spec.traffic.rateLimit.local ?? []).map((entry) => ({
    counts: entry.tokens === undefined ? ("requests" as const) : ("tokens" as const),
    amount: entry.tokens ?? entry.requests ?? 0,
    burst: entry.burst ?? 0,
    unit: entry.unit,
    ...(entry.key !== undefined && { key: entry.key }),
    mode: entry.mode,
  }));
}

function dumpGlobal(limit: GlobalLimit): NonNullable<DumpedPolicy["global"]> {
  const { service, domain, timeoutMs, failureMode, mode, descriptors, fallback } = limit;
  return {
    service,
    domain,
    timeoutMs,
    failureMode,
    mode,
    descriptors,
    fallback: fallback.map(dumpEntry),
  };
}

function dumpEntry({ counts, amount, burst, unit, key, mode }: LocalLimit): DumpedPolicy["local"][number] {
  return { counts, amount, burst, unit, ...(key !== undefined && { key }), mode };
}
