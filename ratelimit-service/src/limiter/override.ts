/**
 * The limit override of a call (`RateLimitDescriptor.limit`), as a rule without name and modes. It is validated, unlike
 * in envoyproxy/ratelimit, where an unknown unit ends the process.
 */
import { headerPolicy } from "../config/header-policy.ts";
import type { Rule } from "../config/rule.ts";
import { isUnit, maxWindowSeconds, unitSeconds, windowSeconds } from "../model/unit.ts";
import type { LimitOverride } from "../model/rate-limit.ts";

const maxUint32 = 4_294_967_295;

/** Returns the rule of an override in a domain, or the problem as a string. */
export function readOverride(domain: string, override: LimitOverride): Rule | string {
  const { requestsPerUnit, unit, unitMultiplier = 1 } = override;
  if (!isUnit(unit)) return `limit unit '${unit}' must be one of ${Object.keys(unitSeconds).join(", ")}`;
  if (!isUint32(requestsPerUnit)) return `limit requests_per_unit ${requestsPerUnit} must be 0 to ${maxUint32}`;
  if (!isUint32(unitMultiplier) || unitMultiplier === 0) {
    return `limit unit_multiplier ${unitMultiplier} must be 1 to ${maxUint32}`;
  }
  const window = windowSeconds(unit, unitMultiplier);
  if (window > maxWindowSeconds) return `limit window of ${window} s must be at most ${maxWindowSeconds} s`;
  const limit = { requestsPerUnit, unit, ...(unitMultiplier === 1 ? {} : { unitMultiplier }) };
  return {
    domain,
    // When too many values have a series of their own, all overrides count in this one.
    path: `${domain}.override`,
    segments: ["override"],
    limit,
    windowSeconds: window,
    headerPolicy: headerPolicy(limit),
    name: "",
    replaces: [],
    shadowMode: false,
    quotaMode: false,
    detailedMetric: false,
    levels: [],
    sharesThreshold: false,
    // An override has no level in the configuration: its series is named after the entries of the call.
    hasRuntimeMetric: true,
  };
}

function isUint32(value: number): boolean {
  return Number.isInteger(value) && value >= 0 && value <= maxUint32;
}
