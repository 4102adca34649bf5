/**
 * Explains why rules of a listener do not match a request, for the log of single requests. The rules that match most
 * conditions come first, because a rule for another host or path is rarely the expected one.
 */
import { redactNamed, redactPath } from "@gatewayproxy/runtime/redaction";
import type { Match, PathMatch, ValueMatch } from "../ir/match.ts";
import type { Listener, RouteRule } from "../ir/snapshot.ts";
import { patternFor } from "../regex/pattern.ts";
import { BudgetExceeded, WorkBudget } from "../regex/work-budget.ts";
import { maxMatchUnits, type RequestHead } from "./compile-routes.ts";
import { HostTable } from "./host-table.ts";
import { normalizeMatch } from "./normalize-match.ts";
import type { PathRules } from "./path-rules.ts";
import { modelHeader, RequestReading } from "./request-reading.ts";

/** A rule that does not match the request. */
interface PassedOver {
  /** Key of the rule. */
  readonly rule: string;
  /** The first condition that does not hold, in words: `method is not GET`. */
  readonly reason: string;
  /** The number of conditions that hold before it, in the order host, path, method, headers, query parameters. */
  readonly fit: number;
}

/** Maximum number of rules to compare, to bound the cost with thousands of routes. */
const maxRules = 1_000;

/**
 * Returns the rules of the listener other than `chosen`, the best fitting first.
 *
 * @param head Its `model` is `none` where it is absent.
 * @param chosen The key of the rule that matched; undefined for none.
 * @param max Maximum number of rules.
 */
export function passedOver(
  listener: Listener,
  head: RequestHead,
  chosen: string | undefined,
  pathRules: PathRules,
  max: number,
): { readonly rules: readonly string[]; readonly more: number } {
  const request = new RequestReading({ model: { kind: "none" }, ...head }, new WorkBudget(maxMatchUnits));
  const found: PassedOver[] = [];
  let count = 0;
  for (const { hostnames, rules } of listener.routes) {
    for (const rule of rules) {
      if (rule.key === chosen) continue;
      count++;
      if (count > maxRules) continue;
      const fit = servesHost(hostnames, head.authority)
        ? fitOfRule(rule, request, pathRules)
        : { reason: `host is not ${hostnames.join(" or ")}`, fit: 0 };
      found.push({ rule: rule.key, ...fit });
    }
  }
  const shown = found.toSorted((a, b) => b.fit - a.fit).slice(0, max);
  return { rules: shown.map(({ rule, reason }) => `${rule}: ${reason}`), more: count - shown.length };
}

function servesHost(hostnames: readonly string[], authority: string): boolean {
  if (hostnames.length === 0) return true;
  const table = new HostTable<true>();
  for (const hostname of hostnames) table.add(hostname, true);
  return table.find(authority) === true;
}

type RuleFit = Pick<PassedOver, "reason" | "fit">;

/** Returns the fit of the rule's best match. */
function fitOfRule({ matches }: RouteRule, request: RequestReading, pathRules: PathRules): RuleFit {
  try {
    const fits = matches.map((match) => fitOfMatch(normalizeMatch(match, pathRules), request));
    return fits.reduce((best, other) => (other.fit > best.fit ? other : best));
  } catch (error) {
    if (error instanceof BudgetExceeded) return { reason: "takes too much work to match", fit: 1 };
    throw error;
  }
}

const completeFit: RuleFit = {
  reason: "matches too, and another rule takes precedence",
  fit: Number.POSITIVE_INFINITY,
};

function fitOfMatch({ path, method, headers, query }: Match, request: RequestReading): RuleFit {
  const { budget, pathname } = request;
  if (!holdsPath(path, pathname, budget)) {
    return { reason: `path ${pathWords[path.kind]} ${redactPath(path.value)}`, fit: 1 };
  }
  if (method !== undefined && method !== request.method) return { reason: `method is not ${method}`, fit: 2 };
  let fit = 3;
  for (const header of headers) {
    const reason = findMismatch("header", header, valueOf(request, header.name), budget);
    if (reason !== undefined) return { reason, fit };
    fit++;
  }
  for (const parameter of query) {
    const reason = findMismatch("query parameter", parameter, request.query(parameter.name), budget);
    if (reason !== undefined) return { reason, fit };
    fit++;
  }
  return completeFit;
}

function valueOf(request: RequestReading, header: string): string | undefined {
  if (header !== modelHeader) return request.header(header);
  return request.model.kind === "named" ? request.model.name : undefined;
}

const pathWords = { Exact: "is not", PathPrefix: "is not under", RegularExpression: "does not match" } as const;

function holdsPath({ kind, value }: PathMatch, pathname: string, budget: WorkBudget): boolean {
  switch (kind) {
    case "Exact":
      return pathname === value;
    case "PathPrefix":
      return value === "/" || pathname === value || pathname.startsWith(`${value}/`);
    case "RegularExpression":
      return patternFor(value, "whole").test(pathname, budget);
  }
}

function findMismatch(
  subject: string,
  { kind, name, value: expected }: ValueMatch,
  value: string | undefined,
  budget: WorkBudget,
): string | undefined {
  if (value === undefined) return `${subject} ${name} is absent`;
  const shown = redactNamed(name, expected);
  if (kind === "Exact") return value === expected ? undefined : `${subject} ${name} is not ${shown}`;
  return patternFor(expected, "whole").test(value, budget) ? undefined : `${subject} ${name} does not match ${shown}`;
}
