/**
 * A short notation for calls and responses, for readable tables of cases.
 *
 * key1=value1,subkey1=x        a descriptor; its entries in order
 * ten=a #4                     with hits_addend 4 of its own; #0 checks without counting, #-4 refunds 4
 * ten=a @42/DAY                with a limit override
 *
 * OK(20,19) MINUTE             a status: code, requests per unit and remaining, unit
 * OK(–)                        a status without limit
 * OK(unlimited)
 * OVER_LIMIT: OK(–) | OVER_LIMIT(10,0) HOUR      overall code and statuses, where they are several or differ
 */
import type { Descriptor, DescriptorStatus, RateLimitRequest, RateLimitResponse } from "../../model/rate-limit.ts";
import { unlimitedRemaining } from "../../model/rate-limit.ts";

/** Parses a call. `hitsAddend` is the request's own; most clients send 0. */
export function parseCall(domain: string, descriptors: readonly string[], hitsAddend = 0): RateLimitRequest {
  return { domain, descriptors: descriptors.map(parseDescriptor), hitsAddend };
}

function parseDescriptor(text: string): Descriptor {
  const [entries = "", ...marks] = text.split(" ");
  const descriptor = {
    entries: entries === "" ? [] : entries.split(",").map((entry) => parseEntry(entry)),
  };
  return marks.reduce<Descriptor>((marked, mark) => ({ ...marked, ...parseMark(mark) }), descriptor);
}

function parseEntry(text: string) {
  const equals = text.indexOf("=");
  return { key: text.slice(0, equals), value: text.slice(equals + 1) };
}

function parseMark(mark: string): Partial<Descriptor> {
  if (mark.startsWith("#-")) return { hitsAddend: Number(mark.slice(2)), isNegativeHits: true };
  if (mark.startsWith("#")) return { hitsAddend: Number(mark.slice(1)) };
  const [requests = "", unit = ""] = mark.slice(1).split("/");
  return { limit: { requestsPerUnit: Number(requests), unit } };
}

/** Renders a response; with the overall code only where it differs from that of a single status. */
export function renderResponse({ overallCode, statuses }: RateLimitResponse): string {
  const text = statuses.map(renderStatus).join(" | ");
  return statuses.length === 1 && statuses[0]?.code === overallCode ? text : `${overallCode}: ${text}`;
}

function renderStatus({ code, currentLimit, limitRemaining }: DescriptorStatus): string {
  if (currentLimit === undefined) return `${code}(${limitRemaining === unlimitedRemaining ? "unlimited" : "–"})`;
  return `${code}(${currentLimit.requestsPerUnit},${limitRemaining}) ${currentLimit.unit}`;
}
