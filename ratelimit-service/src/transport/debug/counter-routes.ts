/**
 * The route `/counters`: GET lists the counters of running windows, DELETE deletes counters, and POST sets those of a
 * descriptor. Only a client on this machine may change counters, which includes `kubectl port-forward`:
 * `/bin/ratelimit` listens on every address. No web page may, not even one of the server itself. Each change is
 * reported to the audit log.
 */
import { redactText } from "@gatewayproxy/runtime/redaction";
import { anySite } from "@gatewayproxy/runtime/web-guard";
import type { CounterTarget } from "../../limiter/counter-changes.ts";
import { shownCounterKey, shownEntryValue } from "../../limiter/keys.ts";
import { maxCount, StoreError } from "../../model/counter-store.ts";
import type { DescriptorEntry } from "../../model/rate-limit.ts";
import { type HttpRequest, type HttpResponse, jsonResponse, textResponse } from "../http/http-server.ts";

/** A counter in the store's listing. */
export interface ListedCounter {
  readonly key: string;
  readonly count: number;
  /** Seconds since the epoch. */
  readonly windowEndSeconds: number;
}

/** A change by an operator, for the audit log. Values that may be credentials are fingerprints. */
export interface CounterAudit {
  readonly operation: "delete" | "set";
  /** Absent if the counters of all domains were deleted. */
  readonly domain?: string;
  /** Absent if the counters of a whole domain were deleted. */
  readonly descriptor?: string;
  readonly limit?: number;
  /** The new value; absent for a deletion. */
  readonly count?: number;
  /** The number of counters that changed. */
  readonly counters: number;
  /** The address of the client. */
  readonly client: string;
}

/** The counters of the service. */
export interface CounterAccess {
  /** Returns the live counters; `undefined` when the store cannot list them. */
  readonly list: () => Iterable<ListedCounter> | undefined;
  /**
   * Sets the counters of a descriptor; a count of 0 deletes them. Resolves with the number of changed counters, or with
   * the problem if there is no such counter. Rejects with `StoreError`.
   */
  readonly change: (target: CounterTarget, count: number) => Promise<number | string>;
  /**
   * Deletes all counters, or those of a domain. Returns their number, or the problem; `undefined` when the store cannot
   * list them.
   */
  readonly deleteAll: (domain: string | undefined) => number | string | undefined;
  /** Called after each change. */
  readonly onChange: (audit: CounterAudit) => void;
}

/** Responds to a request for `/counters`. */
export function countersRoute(access: CounterAccess, request: HttpRequest): HttpResponse | Promise<HttpResponse> {
  const { method, headers, client } = request;
  if (method === "GET" || method === "HEAD") return listResponse(access, request);
  if (method !== "DELETE" && method !== "POST") {
    return { ...textResponse(405, `${method} is not supported; use GET, DELETE or POST\n`), headers: { allow } };
  }
  const site = anySite(headers);
  if (site !== undefined) return textResponse(403, `a request from a web page (${site}) is not allowed\n`);
  if (!localAddresses.includes(client)) {
    return textResponse(
      403,
      `counters can be changed from this machine only, not from ${client}; use a port-forward\n`,
    );
  }
  return method === "POST" ? setResponse(access, request) : deleteResponse(access, request);
}

/** Not all of 127.0.0.0/8: a sidecar of a service mesh forwards requests of others from 127.0.0.6. */
const localAddresses = ["127.0.0.1", "::1", "::ffff:127.0.0.1"];

const allow = "GET, HEAD, DELETE, POST";

const notListed =
  "the counters of a remote store are not listed; list them with its own tools, such as SCAN in Redis\n";
const notDeletable =
  "the counters of a remote store are deleted by descriptor: /counters?domain=D&key1=value1; " +
  "delete others with its own tools\n";
const deleteHelp =
  "the first parameter is domain, the others are the entries of a descriptor: " +
  "/counters?domain=D&key1=value1; without entries, all counters of the domain are deleted; " +
  "/counters?all=true deletes all counters\n";
const setHelp =
  "the first parameter is domain, the others are the entries of a descriptor: /counters?domain=D&key1=value1\n";

function listResponse({ list }: CounterAccess, { query }: HttpRequest): HttpResponse {
  const counters = list();
  if (counters === undefined) return textResponse(501, notListed);
  const limit = readNumber(query, "limit", 1_000, 1, 100_000);
  if (limit === undefined) return textResponse(400, "limit must be a whole number from 1 to 100000\n");
  const prefix = query.get("prefix") ?? "";
  const shown: ListedCounter[] = [];
  let total = 0;
  for (const counter of counters) {
    // Redacted text must not be discoverable by prefix searches either.
    const key = shownCounterKey(counter.key);
    if (!key.startsWith(prefix)) continue;
    total++;
    if (shown.length < limit) shown.push({ ...counter, key });
  }
  return jsonResponse(200, { total, counters: shown });
}

async function deleteResponse(access: CounterAccess, request: HttpRequest): Promise<HttpResponse> {
  const { query, client } = request;
  const all = query.size === 1 && query.get("all") === "true";
  const target = readTarget(query);
  if (!all && target === undefined) return textResponse(400, deleteHelp);
  if (target !== undefined && target.entries.length > 0) return changeResponse(access, target, 0, client);
  const outcome = access.deleteAll(target?.domain);
  if (outcome === undefined) return textResponse(501, notDeletable);
  if (typeof outcome === "string") return textResponse(400, `${outcome}\n`);
  const domain = target === undefined ? {} : { domain: target.domain };
  access.onChange({ operation: "delete", ...domain, counters: outcome, client });
  return jsonResponse(200, { deleted: outcome });
}

async function setResponse(access: CounterAccess, { query, body, client }: HttpRequest): Promise<HttpResponse> {
  const target = readTarget(query);
  if (target === undefined || target.entries.length === 0) return textResponse(400, setHelp);
  const value = readSetBody(body);
  if (typeof value === "string") return textResponse(400, `${value}\n`);
  const { count, limit } = value;
  return changeResponse(access, limit === undefined ? target : { ...target, limit }, count, client, "set");
}

async function changeResponse(
  { change, onChange }: CounterAccess,
  target: CounterTarget,
  count: number,
  client: string,
  operation: CounterAudit["operation"] = "delete",
): Promise<HttpResponse> {
  try {
    const outcome = await change(target, count);
    if (typeof outcome === "string") return textResponse(404, `${outcome}\n`);
    const { domain, entries, limit } = target;
    onChange({
      operation,
      domain,
      descriptor: entries.map((entry) => `${redactText(entry.key)}=${redactText(shownEntryValue(entry))}`).join(", "),
      ...(limit === undefined ? {} : { limit }),
      ...(operation === "set" ? { count } : {}),
      counters: outcome,
      client,
    });
    return jsonResponse(200, operation === "set" ? { set: outcome, count } : { deleted: outcome });
  } catch (error) {
    if (error instanceof StoreError) return textResponse(503, `${error.message}\n`);
    throw error;
  }
}

/**
 * Returns the domain and the entries of a query; `undefined` if it does not begin with a domain or has an empty key.
 */
function readTarget(query: URLSearchParams): CounterTarget | undefined {
  const [first, ...rest] = query;
  if (first?.[0] !== "domain") return undefined;
  const entries: readonly DescriptorEntry[] = rest.map(([key, value]) => ({ key, value }));
  return entries.some(({ key }) => key === "") ? undefined : { domain: first[1], entries };
}

const bodyHelp = `the body must be JSON such as {"count": 10}, or {"count": 10, "limit": 0} for one of rate_limits`;

/** Returns the members of a body, or the problem as a string. */
function readSetBody(body: Buffer): { readonly count: number; readonly limit?: number } | string {
  const value = parseJson(body);
  if (typeof value !== "object" || value === null || Array.isArray(value)) return bodyHelp;
  const { count, limit, ...others } = value as Readonly<Record<string, unknown>>;
  const [unknown] = Object.keys(others);
  if (unknown !== undefined) return `${bodyHelp}; found the member ${JSON.stringify(unknown.slice(0, 100))}`;
  if (!isWholeNumber(count)) return `count must be a whole number from 0 to ${maxCount}`;
  if (limit === undefined) return { count };
  return isWholeNumber(limit) ? { count, limit } : "limit must be a place in rate_limits, from 0";
}

function parseJson(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString());
  } catch {
    return undefined;
  }
}

function isWholeNumber(value: unknown): value is number {
  return Number.isInteger(value) && Number(value) >= 0 && Number(value) <= maxCount;
}

/** Parses a parameter as a whole number within bounds; returns `undefined` for anything else. */
export function readNumber(
  query: URLSearchParams,
  name: string,
  defaultValue: number,
  min: number,
  max: number,
): number | undefined {
  const text = query.get(name) ?? String(defaultValue);
  const number = Number(text);
  return /^\d{1,9}$/.test(text) && number >= min && number <= max ? number : undefined;
}
