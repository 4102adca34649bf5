/**
 * Describes a call and the metadata of its rules for the filters after the rate limit filter
 * (RESPONSE_DYNAMIC_METADATA).
 */
import type { Descriptor, JsonObject, JsonValue, LimitOverride, RateLimitRequest } from "../model/rate-limit.ts";

/**
 * Builds `{domain, descriptors: [{entries: ["k=v"], limit?, hitsAddend?}], hitsAddend?, metadata?}`.
 * @param ruleMetadata metadata of the rules whose descriptors were allowed, in order; the first value of a field wins
 */
export function dynamicMetadata(request: RateLimitRequest, ruleMetadata: readonly JsonObject[]): JsonObject {
  const metadata = ruleMetadata.reduce<JsonObject>(mergeMetadata, {});
  return {
    domain: request.domain,
    descriptors: request.descriptors.map(descriptorMetadata),
    ...(request.hitsAddend === 0 ? {} : { hitsAddend: request.hitsAddend }),
    ...(Object.keys(metadata).length === 0 ? {} : { metadata }),
  };
}

function descriptorMetadata({ entries, limit, hitsAddend }: Descriptor): JsonObject {
  return {
    entries: entries.map(({ key, value }) => `${key}=${value}`),
    ...(limit === undefined ? {} : { limit: overrideText(limit) }),
    ...(hitsAddend === undefined ? {} : { hitsAddend }),
  };
}

/** Renders the override in protobuf's text form: `requests_per_unit:2 unit:HOUR`. */
function overrideText({ requestsPerUnit, unit, unitMultiplier }: LimitOverride): string {
  const count = requestsPerUnit === 0 ? "" : `requests_per_unit:${requestsPerUnit} `;
  const multiplier = unitMultiplier === undefined ? "" : ` unit_multiplier:{value:${unitMultiplier}}`;
  return `${count}unit:${unit}${multiplier}`;
}

/** Merges objects recursively; fields of `base` win. */
function mergeMetadata(base: JsonObject, more: JsonObject): JsonObject {
  const merged: Record<string, JsonValue> = { ...base };
  for (const [key, value] of Object.entries(more)) {
    const existing = merged[key];
    if (existing === undefined) merged[key] = value;
    else if (isObject(existing) && isObject(value)) merged[key] = mergeMetadata(existing, value);
  }
  return merged;
}

function isObject(value: JsonValue): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
