/**
 * Why rules of a listener do not get a request: for the log of single requests, which is off the request path. The rules
 * that fit best come first, since a rule for another host or path is seldom the one that somebody misses.
 */
import { shownNamed, shownPath } from "@gatewayproxy/runtime/redaction";
import type { Match, PathMatch, ValueMatch } from "../ir/match.ts";
import type { Listener, RouteRule } from "../ir/snapshot.ts";
import { patternFor } from "../regex/pattern.ts";
import { BudgetExceeded, WorkBudget } from "../regex/work-budget.ts";
import { maxMatchUnits, type RequestHead } from "./compile-routes.ts";
import { HostTable } from "./host-table.ts";
import { normalizeMatch } from "./normalize-match.ts";
import type { PathRules } from "./path-rules.ts";
import { RequestReading } from "./request-reading.ts";

/** A rule that does not get the request. */
interface PassedOver {
  /** Key of the rule. */
  readonly rule: string;
  /** The first condition that does not hold, in words: `method is not GET`. */
  readonly why: string;
  /** Conditions that hold before it, as far as their order tells: the host, the path, the method, fields, parameters. */
  readonly fit: number;
}

/** Rules that are looked at: the log must stay affordable with thousands of routes. */
const maxRules = 1_000;

/**
 * The rules of the listener other than `chosen`, those first that nearly got the request.
 *
 * @param chosen key of the rule that gets it; undefined for none.
 * @param max how many are told.
 */
export function passedOver(
  listener: Listener,
  head: RequestHead,
  chosen: string | undefined,
  pathRules: PathRules,
  max: number,
): { readonly rules: readonly string[]; readonly more: number } {
  const request = new RequestReading(head, new WorkBudget(maxMatchUnits));
  const found: PassedOver[] = [];
  let count = 0;
  for (const { hostnames, rules } of listener.routes) {
    for (const rule of rules) {
      if (rule.key === chosen) continue;
      count++;
      if (count > maxRules) continue;
      const judged = servesHost(hostnames, head.authority)
        ? judgeRule(rule, request, pathRules)
        : { why: `host is not ${hostnames.join(" or ")}`, fit: 0 };
      found.push({ rule: rule.key, ...judged });
    }
  }
  const told = found.toSorted((a, b) => b.fit - a.fit).slice(0, max);
  return { rules: told.map(({ rule, why }) => `${rule}: ${why}`), more: count - told.length };
}

function servesHost(hostnames: readonly string[], authority: string): boolean {
  if (hostnames.length === 0) return true;
  const table = new HostTable<true>();
  for (const hostname of hostnames) table.add(hostname, true);
  return table.find(authority) === true;
}

type Judgement = Pick<PassedOver, "why" | "fit">;

/** By the match that fits best. */
function judgeRule({ matches }: RouteRule, request: RequestReading, pathRules: PathRules): Judgement {
  try {
    const judged = matches.map((match) => judgeMatch(normalizeMatch(match, pathRules), request));
    return judged.reduce((best, other) => (other.fit > best.fit ? other : best));
  } catch (error) {
    if (error instanceof BudgetExceeded) return { why: "takes too long to tell", fit: 1 };
    throw error;
  }
}

const all: Judgement = { why: "matches too, and another rule takes precedence", fit: Number.POSITIVE_INFINITY };

function judgeMatch({ path, method, headers, query }: Match, request: RequestReading): Judgement {
  const { budget, pathname } = request;
  if (!holdsPath(path, pathname, budget))
    return { why: `path ${pathWords[path.kind]} ${shownPath(path.value)}`, fit: 1 };
  if (method !== undefined && method !== request.method) return { why: `method is not ${method}`, fit: 2 };
  let fit = 3;
  for (const header of headers) {
    const why = findFault("header", header, request.header(header.name), budget);
    if (why !== undefined) return { why, fit };
    fit++;
  }
  for (const parameter of query) {
    const why = findFault("query parameter", parameter, request.query(parameter.name), budget);
    if (why !== undefined) return { why, fit };
    fit++;
  }
  return all;
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

function findFault(
  what: string,
  { kind, name, value: wanted }: ValueMatch,
  value: string | undefined,
  budget: WorkBudget,
): string | undefined {
  if (value === undefined) return `${what} ${name} is absent`;
  const shown = shownNamed(name, wanted);
  if (kind === "Exact") return value === wanted ? undefined : `${what} ${name} is not ${shown}`;
  return patternFor(wanted, "whole").test(value, budget) ? undefined : `${what} ${name} does not match ${shown}`;
}
