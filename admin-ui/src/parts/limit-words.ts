/** Describes limits as text, in requests or tokens. */
import type { DumpedPolicy } from "@gatewayproxy/admin-api/config-dump";
import { counted, formatCount } from "../format.ts";

/** A local limit of a policy. */
export type LocalEntry = DumpedPolicy["local"][number];

/** Describes a limit: `10 requests per minute, burst 5`, `1 token per second`. */
export function describeLimit({
  counts,
  amount,
  burst,
  unit,
}: Pick<LocalEntry, "counts" | "amount" | "burst" | "unit">): string {
  if (unit === undefined) return describeUnits(amount, counts);
  const words = `${describeUnits(amount, counts)} per ${unit.toLowerCase().slice(0, -1)}`;
  return burst > 0 ? `${words}, burst ${formatCount(burst)}` : words;
}

const nouns: Readonly<Record<LocalEntry["counts"], string>> = {
  requests: "request",
  tokens: "token",
  concurrent: "concurrent request",
};

/** Describes an amount: `1 request`, `1,000 tokens`. */
export function describeUnits(units: number, counts: LocalEntry["counts"]): string {
  return counted(units, nouns[counts]);
}
