/**
 * The fields of the header families `Ietf` and `OpenAI`. A family replaces the fields of an upstream, and of a rate
 * limit service, as a whole.
 *
 * `Ietf` is draft-ietf-httpapi-ratelimit-headers: `RateLimit-Policy` and `RateLimit` are lists of strings with
 * parameters (RFC 9651 §3.1). Tokens have the quota unit "tokens", and spend "micro-units", which the registry of the
 * draft does not contain. Items have no partition key, since the key of a counter may identify a user or be a
 * credential.
 */
import { dropFields } from "../filters/header-edits.ts";
import { type ShownLimit, withDistinctNames } from "../policy/ratelimit/shown-limit.ts";

/** Maximum items of a field; clients reject long header sections. */
const maxItems = 16;

const ietfNames: ReadonlySet<string> = new Set(["ratelimit", "ratelimit-policy"]);
const units = ["requests", "tokens"] as const;
const openAiNames: ReadonlySet<string> = new Set(
  units.flatMap((unit) => ["limit", "remaining", "reset"].map((part) => `x-ratelimit-${part}-${unit}`)),
);

/**
 * Sets the fields of the header families that the policies of the limits enable. Edits `headers` in place.
 *
 * @param headers names and values alternate.
 * @param limits that apply to the request.
 * @param denying the limit that denies the request. The fields of `OpenAI` show it instead of other limits of its unit.
 */
export function setLimitFields(headers: string[], limits: readonly ShownLimit[], denying?: ShownLimit): void {
  const items = nearestOf(withDistinctNames(limits).filter(({ families }) => families.includes("Ietf")));
  if (items.length > 0) {
    dropFields(headers, ietfNames);
    headers.push("ratelimit-policy", items.map(policyItem).join(", "), "ratelimit", items.map(limitItem).join(", "));
  }
  const figures = limits.filter(({ families }) => families.includes("OpenAI"));
  if (figures.length === 0) return;
  dropFields(headers, openAiNames);
  for (const unit of units) {
    const ofUnit = figures.filter(({ counts }) => counts === unit);
    const shown = denying !== undefined && ofUnit.includes(denying) ? denying : nearest(ofUnit);
    if (shown !== undefined) headers.push(...openAiFields(shown));
  }
}

/** Returns the limits in their order; if there are more than 16, only those that are nearest to exhaustion. */
function nearestOf(limits: readonly ShownLimit[]): readonly ShownLimit[] {
  if (limits.length <= maxItems) return limits;
  const kept = new Set(limits.toSorted((a, b) => shareOf(a) - shareOf(b)).slice(0, maxItems));
  return limits.filter((limit) => kept.has(limit));
}

function nearest(limits: readonly ShownLimit[]): ShownLimit | undefined {
  const [first] = limits;
  return first && limits.reduce((a, b) => (shareOf(b) < shareOf(a) ? b : a), first);
}

function shareOf({ limit, remaining }: ShownLimit): number {
  return limit === 0 ? 0 : remaining / limit;
}

/** The quota unit of an item. The draft's default is "requests". */
const quotaUnits: Readonly<Record<ShownLimit["counts"], string>> = {
  requests: "",
  tokens: ';qu="tokens"',
  concurrent: ';qu="concurrent-requests"',
  // Only on connections, which have no fields.
  connections: ';qu="connections"',
  spend: ';qu="micro-units"',
};

/** Returns `"per-user";q=1000;qu="tokens";w=60`. */
function policyItem({ name, limit, counts, windowSeconds }: ShownLimit): string {
  return `"${name}";q=${limit}${quotaUnits[counts]}${windowSeconds === undefined ? "" : `;w=${windowSeconds}`}`;
}

/** Returns `"per-user";r=600;t=42`. */
function limitItem({ name, remaining, resetSeconds }: ShownLimit): string {
  return `"${name}";r=${remaining}${resetSeconds === undefined ? "" : `;t=${resetSeconds}`}`;
}

function openAiFields({ counts, limit, remaining, resetSeconds }: ShownLimit): readonly string[] {
  const fields = [`x-ratelimit-limit-${counts}`, String(limit), `x-ratelimit-remaining-${counts}`, String(remaining)];
  return resetSeconds === undefined ? fields : [...fields, `x-ratelimit-reset-${counts}`, durationText(resetSeconds)];
}

/** Returns a duration in the format of OpenAI and Go: `42s`, `6m0s`, `24h0m0s`. */
export function durationText(seconds: number): string {
  const [hours, minutes] = [Math.floor(seconds / 3_600), Math.floor(seconds / 60) % 60];
  if (seconds < 60) return `${seconds}s`;
  return hours === 0 ? `${minutes}m${seconds % 60}s` : `${hours}h${minutes}m${seconds % 60}s`;
}
