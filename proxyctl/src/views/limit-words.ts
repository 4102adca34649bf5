/** Describes limits for tables and summaries. */
import { amountText } from "@gatewayproxy/admin-api/amounts";
import type { DumpedPolicy, DumpedRule } from "@gatewayproxy/admin-api/config-dump";

type LocalEntry = DumpedPolicy["local"][number];
type GlobalLimit = NonNullable<DumpedPolicy["global"]>;
type Authentication = NonNullable<DumpedPolicy["authentication"]>;

/** Describes `10 requests/minute + 5 burst per request.headers["x-key"] (shadow)`. */
export function describeLocal(entry: LocalEntry): string {
  const { counts, amount, burst, key, when, amountFrom, cost, bucket, shareAcrossReplicas, mode } = entry;
  const base = `${amountText(amount, counts)} ${amount === 1 ? counts.replace(/s$/, "") : counts}${perWindow(entry)}`;
  const parts = [
    base,
    burst > 0 ? `+ ${burst} burst` : undefined,
    amountFrom === undefined ? undefined : `or ${amountFrom}`,
    key === undefined ? undefined : `per ${key}`,
    bucket === undefined ? undefined : `in bucket ${bucket}`,
    shareAcrossReplicas ? "shared by the replicas" : undefined,
    cost === undefined ? undefined : `at a cost of ${cost}`,
    entry.reserve === undefined ? undefined : "reserved by estimates",
    when === undefined ? undefined : `when ${when}`,
    mode === "Shadow" ? "(shadow)" : undefined,
  ];
  return parts.filter((part) => part !== undefined).join(" ");
}

/**
 * Describes `/minute`; requests in progress, `4 concurrent requests`, and connections, `4 connections`, have no window.
 */
export function perWindow(entry: Pick<LocalEntry, "counts" | "unit" | "every" | "window" | "timeZone">): string {
  if (entry.counts === "connections") return "";
  return entry.unit === undefined ? " requests" : `/${describeWindow(entry.unit, entry)}`;
}

/** Describes `minute`, `15 minutes`, `sliding hour` or `calendar month in Europe/Berlin`. */
export function describeWindow(
  unit: string,
  { every, window, timeZone = "UTC" }: Pick<LocalEntry, "every" | "window" | "timeZone">,
): string {
  const units = every === 1 ? unit.toLowerCase().replace(/s$/, "") : unit.toLowerCase();
  const kind = window === "Fixed" ? undefined : window.toLowerCase();
  const words = [every === 1 ? undefined : String(every), kind, units].filter((word) => word !== undefined).join(" ");
  return window === "Calendar" ? `${words} in ${timeZone}` : words;
}

/** Describes `global "chat" at Service/default/ratelimit:8081 (fallback 50 requests/minute)`. */
export function describeGlobal({ domain, service, mode, failureMode, fallback }: GlobalLimit): string {
  const local = fallback.length === 0 ? "" : `: ${fallback.map(describeLocal).join(", ")}`;
  const shadow = mode === "Shadow" ? " (shadow)" : "";
  return `global ${JSON.stringify(domain)} at ${service}${shadow} (on failure ${failureMode}${local})`;
}

/** Describes `authentication Optional by tokens of https://a.example, 3 API keys`. */
export function describeAuthentication({ mode, jwt = [], apiKeys }: Authentication): string {
  const ways = [
    ...jwt.map(({ issuer, keys }) => `tokens of ${issuer} (${keys.count} ${keys.count === 1 ? "key" : "keys"})`),
    ...(apiKeys === undefined ? [] : [`${apiKeys.count} API ${apiKeys.count === 1 ? "key" : "keys"}`]),
  ];
  return `authentication ${mode} by ${ways.join(", ")}`;
}

/** Describes the authentication and all limits of a policy, in order. */
export function describePolicy({ authentication, local, global }: DumpedPolicy): readonly string[] {
  return [
    ...(authentication === undefined ? [] : [describeAuthentication(authentication)]),
    ...local.map(describeLocal),
    ...(global === undefined ? [] : [describeGlobal(global)]),
  ];
}

/** Renders `default/chat#0`, or `default/chat#global (shadow)`. */
export function describeReference({ policy, entry, mode }: DumpedRule["limits"][number]): string {
  return `${policy}#${entry ?? "global"}${mode === "Shadow" ? " (shadow)" : ""}`;
}
