/**
 * The latest denials of a worker, each with the figures of its limit, found by the `x-request-id` of a 429. The ring
 * stores references; descriptions are created on request.
 */
import type { Decision, GlobalDenial } from "@gatewayproxy/admin-api/decisions";
import type { Denial, LocalDenial } from "../policy/ratelimit/denial.ts";
import { isHeld } from "../policy/ratelimit/global/calls.ts";
import type { RequestDescriptor } from "../policy/ratelimit/global/descriptors.ts";
import type { DescriptorStatus } from "../policy/ratelimit/global/messages.ts";
import { describeNotApplied } from "../policy/ratelimit/global/not-applied.ts";
import type { GlobalDecider, GlobalLimit } from "../ir/global-limit.ts";
import { isChargedLater } from "../ir/limit.ts";
import { isSecretExpression, isSecretName, redactText, redactValue } from "@gatewayproxy/runtime/redaction";
import type { RequestRecord } from "../telemetry/request-record.ts";
import { describeWindow } from "./limit-window.ts";

/** Number of denials that a worker stores. */
export const decisionCapacity = 1_024;
/** Maximum characters of their texts together, which clients and rate limit services choose. */
const maxTextLength = 4 * 1024 * 1024;

/** Selects denials of a worker. */
export interface DecisionQuery {
  /** Request id; undefined: any. */
  readonly id: string | undefined;
  /** Trace id; absent: any, or none. */
  readonly traceId?: string | undefined;
}

/** The denials that match a query, and the number that the worker stores. */
export interface DecisionResult {
  /** Newest first. */
  readonly decisions: readonly Decision[];
  readonly remembered: number;
}

interface StoredDenial {
  readonly record: RequestRecord;
  readonly denial: Denial;
  /** Wall time and monotonic time of the denial. */
  readonly atMs: number;
  readonly monotonicMs: number;
}

/** The latest denials of one worker, at most 1,024, and fewer if clients send long texts. */
export class DecisionRing {
  readonly #worker: number;
  /** Those from `#first` to `#next`, each at its number modulo the capacity. */
  readonly #ring: (StoredDenial | undefined)[] = [];
  #first = 0;
  #next = 0;
  #textLength = 0;

  /** @param worker The worker's number, from 1. */
  constructor(worker: number) {
    this.#worker = worker;
  }

  add(stored: StoredDenial): void {
    const kept = { ...stored, denial: withoutResponseTexts(stored.denial) };
    const length = textLengthOf(kept);
    while (this.#count >= decisionCapacity || (this.#count > 0 && this.#textLength + length > maxTextLength)) {
      this.#removeOldest();
    }
    this.#ring[this.#next++ % decisionCapacity] = kept;
    this.#textLength += length;
  }

  get #count(): number {
    return this.#next - this.#first;
  }

  #removeOldest(): void {
    const place = this.#first++ % decisionCapacity;
    const oldest = this.#ring[place];
    this.#ring[place] = undefined;
    if (oldest !== undefined) this.#textLength -= textLengthOf(oldest);
  }

  find({ id, traceId }: DecisionQuery): DecisionResult {
    const decisions: Decision[] = [];
    for (let at = this.#next - 1; at >= this.#first; at--) {
      const stored = this.#ring[at % decisionCapacity];
      if (stored === undefined) continue;
      const { record } = stored;
      if (id !== undefined && record.requestId !== id) continue;
      if (traceId === undefined || record.traceId === traceId) decisions.push(describe(stored, this.#worker));
    }
    return { decisions, remembered: this.#count };
  }
}

/** Returns the denial without the body and the fields of the response of a service, which may have a mebibyte. */
function withoutResponseTexts(denial: Denial): Denial {
  if (denial.kind !== "global" || "kind" in denial.cause) return denial;
  const { cause } = denial;
  const response = { ...cause.response, rawBody: undefined, responseHeaders: [], requestHeaders: [] };
  return { ...denial, cause: { ...cause, response } };
}

/** Returns the characters that the client has chosen, and names that a service has chosen. */
function textLengthOf({ record, denial }: StoredDenial): number {
  const ofRecord =
    record.path.length + record.authority.length + record.method.length + (record.userAgent?.length ?? 0);
  if (denial.kind === "local") return ofRecord + (denial.key?.length ?? 0);
  let length = ofRecord;
  for (const { entries } of denial.descriptors) for (const { value } of entries) length += value.length;
  if (denial.kind !== "global") return length;
  if ("kind" in denial.cause) return length + (denial.cause.key?.length ?? 0);
  for (const { limit } of denial.cause.response.statuses) length += limit?.name.length ?? 0;
  return length;
}

function describe(stored: StoredDenial, worker: number): Decision {
  const { record, denial, atMs } = stored;
  const { requestId, traceId, method, authority, path, listener, route, rule } = record;
  const request = {
    requestId,
    ...(traceId !== undefined && { traceId }),
    at: iso(atMs),
    worker,
    method: redactText(method),
    authority: redactText(authority),
    path: redactText(path.split("?", 1)[0] ?? ""),
    ...(listener !== undefined && { listener }),
    ...(route !== undefined && { route }),
    ...(rule !== undefined && { rule }),
  };
  if (denial.kind !== "local") return { kind: "global", ...request, ...describeGlobal(denial, stored) };
  const { policy, target } = denial.limit;
  const counter = describeCounter(denial, stored);
  return { kind: "local", ...request, policy, target, counter, remedies: localRemedies(denial, counter) };
}

type Counter = NonNullable<GlobalDenial["counter"]>;

function describeCounter(denial: LocalDenial, stored: StoredDenial): Counter {
  const { limit, key, used, windowStartMs, windowEndMs, state, notApplied } = denial;
  const timeOf = (monotonicMs: number): string => iso(stored.atMs - (stored.monotonicMs - monotonicMs));
  return {
    entry: limit.entry,
    ...(limit.name !== undefined && { name: limit.name }),
    counts: limit.counts,
    ...(limit.unit !== undefined && { unit: limit.unit }),
    every: limit.unitCount ?? 1,
    ...describeWindow(limit.window),
    ...(limit.bucket !== undefined && { bucket: limit.bucket }),
    ...(key !== undefined && { key: redactValue(key, isSecretExpression(limit.key ?? "")) }),
    used,
    limit: state.limit,
    windowStart: timeOf(windowStartMs),
    windowEnd: timeOf(windowEndMs),
    notApplied: notApplied.map(({ policy, entry, name, when = "" }) => {
      return { policy, entry, ...(name !== undefined && { name }), when };
    }),
  };
}

function localRemedies({ limit, key }: LocalDenial, { windowEnd }: Counter): readonly string[] {
  const ofKey = key === undefined ? "" : " of this key";
  if (limit.counts === "concurrent" || limit.counts === "connections") {
    const counted = limit.counts === "concurrent" ? "a request in progress" : "an open connection";
    return [
      `the end of ${counted}${ofKey} allows another`,
      `an editor of ProxyPolicy ${limit.policy} can raise spec.traffic.rateLimit.local[${limit.entry}], or set its mode to Shadow`,
    ];
  }
  const restoresAll = isChargedLater(limit.counts) || limit.amountFrom !== undefined || limit.bucket !== undefined;
  const restored = restoresAll ? "the whole budget" : `${limit.amount} requests`;
  const field = `spec.traffic.rateLimit.local[${limit.entry}]`;
  return [
    `the end of the window at ${windowEnd} restores ${restored}${key === undefined ? "" : " of this key"}`,
    `an editor of ProxyPolicy ${limit.policy} can raise ${field}, or set its mode to Shadow`,
  ];
}

function describeGlobal(denial: Exclude<Denial, LocalDenial>, stored: StoredDenial) {
  const { limit } = denial;
  const { policy, target, service, domain } = limit;
  const cause = denial.kind === "global" ? denial.cause : undefined;
  const counter = cause !== undefined && "kind" in cause ? describeCounter(cause, stored) : undefined;
  const response = cause !== undefined && "response" in cause ? cause.response : undefined;
  const descriptors = denial.descriptors.map((descriptor, at) =>
    describeDescriptor(descriptor, response?.statuses[at]),
  );
  const by = deciderOf(denial.by);
  const remedies = globalRemedies(limit, by, counter, denial.descriptors.some(isHeld));
  const notApplied = denial.notApplied.map(describeNotApplied);
  const rest = { ...(counter !== undefined && { counter }), remedies };
  return { policy, target, by, service, domain, descriptors, notApplied, ...rest };
}

/** Returns the decider of a denial. `none` allows every request, so it does not occur. */
function deciderOf(by: GlobalDecider): GlobalDenial["by"] {
  return by === "none" ? "failureMode" : by;
}

function describeDescriptor(descriptor: RequestDescriptor, status: DescriptorStatus | undefined) {
  const { compiled, entries, hits, override } = descriptor;
  const shown = entries.map(({ key, value }, at) => {
    const source = compiled.descriptor.entries[at]?.expression ?? "";
    return { key, value: redactValue(value, isSecretName(key) || isSecretExpression(source)) };
  });
  const { limit, code, remaining, resetMs } = status ?? {};
  return {
    entries: shown,
    ...(override !== undefined && { override }),
    ...(code !== undefined && { code }),
    ...(limit !== undefined && { limit: limit.requestsPerUnit }),
    ...(limit?.windowSeconds !== undefined && { windowSeconds: limit.windowSeconds }),
    ...(remaining !== undefined && { remaining }),
    ...(resetMs !== undefined && { resetSeconds: Math.ceil(resetMs / 1_000) }),
    ...(isHeld(descriptor) && { estimate: hits }),
  };
}

function globalRemedies(
  { policy, service, domain }: GlobalLimit,
  by: string,
  counter: Counter | undefined,
  holds: boolean,
): readonly string[] {
  const edit = `an editor of ProxyPolicy ${policy} can change it`;
  if (by === "failureMode") {
    return [`the recovery of the rate limit service ${service}`, `${edit}: failureMode is Closed`];
  }
  if (counter !== undefined) {
    const end = `the end of the window at ${counter.windowEnd}, or the recovery of the rate limit service ${service}`;
    return [end, `${edit}: its fallback, or its mode`];
  }
  return [
    ...(holds ? ["the end of requests that hold tokens, or a request that allows less output"] : []),
    `the end of the service's window, as x-ratelimit-reset of the response says`,
    `an operator of the rate limit service ${service} can raise the limit of domain ${domain}`,
  ];
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}
