/**
 * The parts of a match beside its path: method, headers, query parameters (Gateway API `HTTPRouteMatch`). Compiled to
 * `undefined` where a match has none, so that a plain route never looks at a header.
 */
import type { Match, ValueMatch } from "../ir/match.ts";
import { type Pattern, patternFor } from "../regex/pattern.ts";
import type { WorkBudget } from "../regex/work-budget.ts";

/** What routing reads of a request. */
export interface RequestHead {
  readonly method: string;
  /** As `normalizePath` returned it, query included. */
  readonly path: string;
  /** The `Host` field or `:authority`; port and case do not matter. */
  readonly authority: string;
  /** Names and values in turn; each name comes once (`requestFields`). */
  readonly rawHeaders: readonly string[];
}

export interface Conditions {
  readonly method: string | undefined;
  readonly headers: readonly ValueCondition[];
  readonly query: readonly ValueCondition[];
}

interface ValueCondition {
  readonly name: string;
  readonly accepts: Pick<Pattern, "test">;
}

export function compileConditions(match: Match): Conditions | undefined {
  if (match.method === undefined && match.headers.length === 0 && match.query.length === 0) return undefined;
  return {
    method: match.method,
    headers: match.headers.map(compileValueMatch),
    query: match.query.map(compileValueMatch),
  };
}

function compileValueMatch({ kind, name, value: wanted }: ValueMatch): ValueCondition {
  const accepts = kind === "Exact" ? { test: (value: string) => value === wanted } : patternFor(wanted, "whole");
  return { name, accepts };
}

/**
 * Whether all conditions hold for the request. Throws `BudgetExceeded` where its regular expressions cost more than
 * `budget` has.
 */
export function satisfies(head: RequestHead, conditions: Conditions, budget: WorkBudget): boolean {
  if (conditions.method !== undefined && conditions.method !== head.method) return false;
  for (const { name, accepts } of conditions.headers) {
    const value = headerValue(head, name);
    if (value === undefined || !accepts.test(value, budget)) return false;
  }
  if (conditions.query.length === 0) return true;
  const queryStart = head.path.indexOf("?");
  if (queryStart === -1) return false;
  for (const { name, accepts } of conditions.query) {
    const value = queryValue(head.path, queryStart + 1, name);
    if (value === undefined || !accepts.test(value, budget)) return false;
  }
  return true;
}

/** The value of a header; `name` is in lower case. */
function headerValue(head: RequestHead, name: string): string | undefined {
  // HTTP/2 clients send `:authority` in its place.
  if (name === "host") return head.authority;
  const { rawHeaders } = head;
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const candidate = rawHeaders[at];
    if (candidate?.length === name.length && candidate.toLowerCase() === name) return rawHeaders[at + 1];
  }
  return undefined;
}

/**
 * The decoded value of the first parameter of that name in the query that begins at `start`. Other parameters cost no
 * decoding: a query may be thousands of broken escapes, and an exception for each would keep a worker for milliseconds.
 */
function queryValue(path: string, start: number, name: string): string | undefined {
  for (let from = start; from <= path.length; ) {
    const ampersand = path.indexOf("&", from);
    const end = ampersand === -1 ? path.length : ampersand;
    const nameEnd = endOfName(path, from, name);
    if (nameEnd === end || path.charAt(nameEnd) === "=") return decodeQuery(path.slice(nameEnd + 1, end));
    from = end + 1;
  }
  return undefined;
}

/** Index behind `name`, a token (ASCII, no space), if it is spelled at `from`, plainly or in escapes; otherwise -1. */
function endOfName(path: string, from: number, name: string): number {
  let at = from;
  for (const wanted of name) {
    const char = path.charAt(at);
    // The plain `&` ends a parameter, and the plain `+` is a space.
    if (char === wanted && char !== "&" && char !== "+") at += 1;
    else if (char === "%" && Number.parseInt(path.slice(at + 1, at + 3), 16) === wanted.charCodeAt(0)) at += 3;
    else return -1;
  }
  return at;
}

/** Form decoding; text with a broken escape is taken as it stands. */
function decodeQuery(text: string): string {
  if (!text.includes("%") && !text.includes("+")) return text;
  try {
    return decodeURIComponent(text.replaceAll("+", " "));
  } catch {
    return text;
  }
}
