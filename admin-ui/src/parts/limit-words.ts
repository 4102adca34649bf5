/** Describes limits as text, in requests or tokens. */
import { moneyText } from "@gatewayproxy/admin-api/amounts";
import type { DumpedPolicy } from "@gatewayproxy/admin-api/config-dump";
import { counted, formatCount } from "../format.ts";

/** A local limit of a policy. */
export type LocalEntry = DumpedPolicy["local"][number];

/** A descriptor of a global limit. */
export type Descriptor = NonNullable<DumpedPolicy["global"]>["descriptors"][number];

/** What `describeLimit` reads. */
export type Amount = Pick<LocalEntry, "counts" | "amount" | "burst" | "unit"> &
  Partial<Pick<LocalEntry, "every" | "amountFrom">>;

/**
 * Describes a limit: `10 requests per minute, burst 5`, `1 token per 2 weeks`, `1 request per second or int(jwt.rps)`.
 */
export function describeLimit({ counts, amount, burst, unit, every = 1, amountFrom }: Amount): string {
  const words = `${describeUnits(amount, counts)}${unit === undefined ? "" : ` per ${windowOf(unit, every)}`}`;
  const own = amountFrom === undefined ? words : `${words} or ${amountFrom}`;
  return burst > 0 ? `${own}, burst ${formatCount(burst)}` : own;
}

/** Of several units `2 weeks`, of one `week`. */
function windowOf(unit: string, every: number): string {
  return every === 1 ? unit.toLowerCase().slice(0, -1) : `${every} ${unit.toLowerCase()}`;
}

/** What else decides about the requests of a limit. */
export interface Terms {
  readonly window?: LocalEntry["window"] | undefined;
  /** Of windows of the calendar. */
  readonly timeZone?: string | undefined;
  readonly bucket?: string | undefined;
  /** Replicas that share the limit; `true` if their number is not known. */
  readonly replicas?: number | true | undefined;
  readonly when?: string | undefined;
  readonly cost?: string | undefined;
  readonly reserve?: LocalEntry["reserve"] | undefined;
}

/** Describes what else decides: `in the bucket team-a`, `a share of 3 replicas`, `when jwt.tier != "gold"`. */
export function describeTerms({
  window,
  timeZone = "UTC",
  bucket,
  replicas,
  when,
  cost,
  reserve,
}: Terms): readonly string[] {
  const shared = replicas === true ? "for all replicas together" : `a share of ${counted(replicas ?? 1, "replica")}`;
  return [
    ...(window === "Sliding" ? ["in a sliding window"] : []),
    ...(window === "Calendar" ? [`by the calendar of ${timeZone}`] : []),
    ...(bucket === undefined ? [] : [`in the bucket ${bucket}`]),
    ...(replicas === undefined ? [] : [shared]),
    ...(cost === undefined ? [] : [`at a cost of ${cost}`]),
    ...(reserve === undefined ? [] : ["reserved by estimates"]),
    ...(when === undefined ? [] : [`when ${when}`]),
  ];
}

/**
 * Describes the condition, the override and the reservation of a descriptor: `limited to int(jwt.rpm) or 60 per
 * minute`, `when …`.
 */
export function describeDescriptorTerms({ limitOverride, when, reserves }: Descriptor): readonly string[] {
  const amounts = [limitOverride?.requestsPerUnitFrom, limitOverride?.requestsPerUnit].filter(
    (amount) => amount !== undefined,
  );
  return [
    ...(limitOverride === undefined
      ? []
      : [`limited to ${amounts.join(" or ")} per ${limitOverride.unit.toLowerCase()}`]),
    ...(reserves === true ? ["reserved by estimates"] : []),
    ...(when === undefined ? [] : [`when ${when}`]),
  ];
}

const nouns: Readonly<Record<LocalEntry["counts"], string>> = {
  requests: "request",
  tokens: "token",
  concurrent: "concurrent request",
  connections: "open connection",
  spend: "spend",
};

/** Describes an amount: `1 request`, `1,000 tokens`, `25.00 of spend`. */
export function describeUnits(units: number, counts: LocalEntry["counts"]): string {
  if (counts === "spend") return `${moneyText(units)} of spend`;
  return counted(units, nouns[counts]);
}
