/** Limits in the words in which tables and summaries show them. */
import type { DumpedPolicy, DumpedRule } from "@gatewayproxy/admin-api/config-dump";

type LocalEntry = DumpedPolicy["local"][number];
type GlobalLimit = NonNullable<DumpedPolicy["global"]>;

/** `10 requests/minute + 5 burst per request.headers["x-key"] (shadow)`. */
export function describeLocal({ counts, amount, burst, unit, key, mode }: LocalEntry): string {
  const base = `${amount} ${amount === 1 ? counts.replace(/s$/, "") : counts}/${unit.toLowerCase().replace(/s$/, "")}`;
  const parts = [
    base,
    burst > 0 ? `+ ${burst} burst` : undefined,
    key === undefined ? undefined : `per ${key}`,
    mode === "Shadow" ? "(shadow)" : undefined,
  ];
  return parts.filter((part) => part !== undefined).join(" ");
}

/** `global "chat" at Service/default/ratelimit:8081 (fallback 50 requests/minute)`. */
export function describeGlobal({ domain, service, mode, failureMode, fallback }: GlobalLimit): string {
  const local = fallback.length === 0 ? "" : `: ${fallback.map(describeLocal).join(", ")}`;
  const shadow = mode === "Shadow" ? " (shadow)" : "";
  return `global ${JSON.stringify(domain)} at ${service}${shadow} (on failure ${failureMode}${local})`;
}

/** Everything that a policy limits, in its order. */
export function describePolicy({ local, global }: DumpedPolicy): readonly string[] {
  return [...local.map(describeLocal), ...(global === undefined ? [] : [describeGlobal(global)])];
}

/** `default/chat#0`, or `default/chat#global (shadow)`. */
export function describeReference({ policy, entry, mode }: DumpedRule["limits"][number]): string {
  return `${policy}#${entry ?? "global"}${mode === "Shadow" ? " (shadow)" : ""}`;
}
