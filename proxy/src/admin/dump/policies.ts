/** Policies as they are written, where they are attached, and their global part as it is enforced. */
import type { DumpedPolicy } from "@gatewayproxy/admin-api/config-dump";
import type { AncestorStatus, PolicyStatus } from "../../api/status.ts";
import type { GlobalLimit } from "../../ir/global-limit.ts";
import type { LocalLimit } from "../../ir/limit.ts";
import { globalLimitsOf } from "../snapshot-limits.ts";
import type { ConfigurationState } from "./input.ts";

export function dumpPolicies(configuration: ConfigurationState): readonly DumpedPolicy[] {
  const globals = new Map(globalLimitsOf(configuration.snapshot).map((limit) => [limit.policy, limit]));
  return configuration.statuses.proxyPolicies.map((status) => {
    const global = globals.get(`${status.namespace}/${status.name}`);
    return {
      namespace: status.namespace,
      name: status.name,
      targets: status.ancestors.map(dumpTarget),
      local: localEntries(configuration, status),
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

function localEntries({ resources }: ConfigurationState, { namespace, name }: PolicyStatus): DumpedPolicy["local"] {
  const policy = resources.ProxyPolicy.find(
    ({ metadata }) => metadata.namespace === namespace && metadata.name === name,
  );
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
