/**
 * The limits of a request as the header families `Ietf` and `OpenAI` list them, each with a name. Only limits of
 * policies with one of these families are listed, so that the others cost nothing.
 */
import type { GlobalDescriptor, GlobalLimit } from "../../ir/global-limit.ts";
import type { LocalLimit } from "../../ir/limit.ts";
import { defaultHeaderFamilies, type HeaderFamily, type LimitResponses } from "../../ir/limit-response.ts";
import type { DescriptorStatus } from "./global/messages.ts";

/** A limit with its state for a request. */
export interface ShownLimit {
  /** Printable ASCII without quotes and backslashes. */
  readonly name: string;
  /** The families of its policy. */
  readonly families: readonly HeaderFamily[];
  readonly counts: LocalLimit["counts"];
  readonly limit: number;
  /** Never negative. */
  readonly remaining: number;
  /** Length of the window; undefined for requests in progress, and if a service does not report it. */
  readonly windowSeconds: number | undefined;
  /** Seconds to the end of the window, rounded up; undefined if a service does not report them. */
  readonly resetSeconds: number | undefined;
}

/**
 * The list of a policy that a limit is in. Names of limits without one of their own begin with it, except for `local`.
 */
export type LimitList = "local" | "fallback" | "global";

/** Whether a family of the policy is sent in responses. */
export function sendsFamily({ headers = defaultHeaderFamilies }: LimitResponses, family: HeaderFamily): boolean {
  return headers.includes(family);
}

/** Whether a family of the policy lists its limits. */
export function listsLimits({ headers }: LimitResponses): boolean {
  return headers !== undefined && (headers.includes("Ietf") || headers.includes("OpenAI"));
}

/** Whether a response may name the limit: in headers or in a problem. */
export function isNamed(limit: LimitResponses): boolean {
  return listsLimits(limit) || (limit.denied !== undefined && limit.denied.format !== "Text");
}

/** The largest integer of a structured field (RFC 9651 §3.3.1). A service may report a longer window. */
const maxInteger = 999_999_999_999_999;

/** Maximum characters of a name, without the number that distinguishes equal ones. */
const maxNameLength = 63;

/** Returns the name of a limit: its own, or the name of its policy and its index. */
export function nameOf({ name, policy, entry }: LocalLimit, list: LimitList): string {
  return name ?? nameInList(policy, list, entry);
}

/** Returns the names that occur again, each with a number, by their limits. */
export function renamed<Limit extends { readonly name: string }>(limits: readonly Limit[]): ReadonlyMap<Limit, string> {
  const taken = new Set<string>();
  const names = new Map<Limit, string>();
  for (const limit of limits) {
    const name = distinct(limit.name, taken);
    if (name !== limit.name) names.set(limit, name);
  }
  return names;
}

/** @param policy `namespace/name`, of which the namespace is not shown. */
function nameInList(policy: string, list: LimitList, index: number): string {
  const name = policy.slice(policy.indexOf("/") + 1).slice(0, maxNameLength);
  return list === "local" ? `${name}-${index}` : `${name}-${list}-${index}`;
}

function distinct(name: string, taken: Set<string>): string {
  let found = name;
  for (let number = 2; taken.has(found); number++) found = `${name}-${number}`;
  taken.add(found);
  return found;
}

/** Returns the limits with names that differ, which limits of several lists may not have. */
export function withDistinctNames(limits: readonly ShownLimit[]): readonly ShownLimit[] {
  const names = renamed(limits);
  return limits.map((limit) => {
    const name = names.get(limit);
    return name === undefined ? limit : { ...limit, name };
  });
}

/**
 * Returns the limits that a service reports, of those in the policy's descriptors.
 *
 * @param descriptors of the call, in the order of the statuses.
 * @param passedMs time since the response.
 */
export function shownStatuses(
  global: GlobalLimit,
  descriptors: readonly GlobalDescriptor[],
  statuses: readonly DescriptorStatus[],
  passedMs = 0,
): readonly ShownLimit[] {
  return statuses.slice(0, descriptors.length).flatMap((status, at) => {
    const { limit, remaining, resetMs } = status;
    if (limit === undefined) return [];
    return {
      name: statusName(global, descriptors[at], status),
      families: global.headers ?? defaultHeaderFamilies,
      counts: descriptors[at]?.counts ?? "requests",
      limit: limit.requestsPerUnit,
      remaining,
      windowSeconds: limit.windowSeconds && Math.min(limit.windowSeconds, maxInteger),
      resetSeconds: resetMs === undefined ? undefined : Math.ceil(Math.max(0, resetMs - passedMs) / 1_000),
    };
  });
}

/** Returns the names of the limits that a service reports as over. */
export function overLimitNames(
  global: GlobalLimit,
  descriptors: readonly GlobalDescriptor[],
  statuses: readonly DescriptorStatus[],
): readonly string[] {
  return statuses
    .slice(0, descriptors.length)
    .flatMap((status, at) => (status.code === "OVER_LIMIT" ? statusName(global, descriptors[at], status) : []));
}

/** Returns the name that the service gives the limit, or that of the policy with the index of the descriptor. */
function statusName(
  { policy }: GlobalLimit,
  descriptor: GlobalDescriptor | undefined,
  { limit }: DescriptorStatus,
): string {
  const name = (limit?.name ?? "").replaceAll(/[^\x20-\x7e]|["\\]/g, "").slice(0, maxNameLength);
  return name === "" ? nameInList(policy, "global", descriptor?.index ?? 0) : name;
}
