/**
 * The latest denials of a worker, each with the figures of its limit, found by the `x-request-id` of a 429 or by the
 * address of the client. The rings store references; descriptions are created on request.
 */
import type { ConnectionDenial, Decision, GlobalDenial } from "@gatewayproxy/admin-api/decisions";
import type { Denial, LocalDenial } from "../policy/ratelimit/denial.ts";
import { isHeld } from "../policy/ratelimit/global/calls.ts";
import type { RequestDescriptor } from "../policy/ratelimit/global/descriptors.ts";
import type { DescriptorStatus } from "../policy/ratelimit/global/messages.ts";
import { describeNotApplied } from "../policy/ratelimit/global/not-applied.ts";
import type { GlobalDecider, GlobalLimit } from "../ir/global-limit.ts";
import { isChargedLater } from "../ir/limit.ts";
import { isSecretExpression, isSecretName, redactText, redactValue } from "@gatewayproxy/runtime/redaction";
import type { RequestRecord } from "../telemetry/request-record.ts";
import type { StreamRecord } from "../telemetry/stream-record.ts";
import { describeWindow } from "./limit-window.ts";

/** Number of denials in a ring. */
const ringCapacity = 1_024;
/** Number of denials that a worker stores: of requests, and of connections and sessions. */
export const decisionCapacity = 2 * ringCapacity;
/** Maximum characters of the texts of a ring together, which clients and rate limit services choose. */
const maxTextLength = 4 * 1024 * 1024;

/** Selects denials of a worker. */
export interface DecisionQuery {
  /** Request id; undefined: any. */
  readonly id: string | undefined;
  /** Trace id; absent: any, or none. */
  readonly traceId?: string | undefined;
  /** Address of the client; absent: any. */
  readonly source?: string | undefined;
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

/** A denied connection or session. */
interface StoredConnection extends Omit<StoredDenial, "record" | "denial"> {
  readonly record: StreamRecord;
  readonly denial: LocalDenial;
}

/**
 * The latest denials of one worker: at most 1,024 of requests and as many of connections and sessions, and fewer if
 * clients send long texts. A flood of one kind leaves those of the other.
 */
export class DecisionRing {
  readonly #worker: number;
  readonly #requests = new Ring(textLengthOf);
  readonly #connections = new Ring<StoredConnection>(({ record: { sourceAddress, serverName }, denial: { key } }) => {
    return sourceAddress.length + (serverName?.length ?? 0) + (key?.length ?? 0);
  });

  /** @param worker The worker's number, from 1. */
  constructor(worker: number) {
    this.#worker = worker;
  }

  add(stored: StoredDenial): void {
    this.#requests.add({ ...stored, denial: withoutResponseTexts(stored.denial) });
  }

  addConnection(stored: StoredConnection): void {
    this.#connections.add(stored);
  }

  find({ id, traceId, source }: DecisionQuery): DecisionResult {
    const decisions: Decision[] = [];
    for (const stored of this.#requests.newestFirst()) {
      const { requestId, traceId: trace, sourceAddress } = stored.record;
      const isFound = (id ?? requestId) === requestId && (source ?? sourceAddress) === sourceAddress;
      if (isFound && (traceId === undefined || trace === traceId)) decisions.push(describe(stored, this.#worker));
    }
    // Connections have neither ids nor traces.
    if (id === undefined && traceId === undefined) {
      for (const stored of this.#connections.newestFirst()) {
        const { sourceAddress } = stored.record;
        if ((source ?? sourceAddress) === sourceAddress) decisions.push(describeConnection(stored, this.#worker));
      }
    }
    return {
      decisions: decisions.sort((a, b) => Number(a.at < b.at) - Number(a.at > b.at)),
      remembered: this.#requests.count + this.#connections.count,
    };
  }
}

/** The latest items, bounded in number and in the length of their texts. */
class Ring<Item> {
  readonly #textLengthOf: (item: Item) => number;
  /** Those from `#first` to `#next`, each at its number modulo the capacity. */
  readonly #items: (Item | undefined)[] = [];
  #first = 0;
  #next = 0;
  #textLength = 0;

  constructor(ofTexts: (item: Item) => number) {
    this.#textLengthOf = ofTexts;
  }

  get count(): number {
    return this.#next - this.#first;
  }

  add(item: Item): void {
    const length = this.#textLengthOf(item);
    while (this.count >= ringCapacity || (this.count > 0 && this.#textLength + length > maxTextLength)) {
      this.#removeOldest();
    }
    this.#items[this.#next++ % ringCapacity] = item;
    this.#textLength += length;
  }

  *newestFirst(): Iterable<Item> {
    for (let at = this.#next - 1; at >= this.#first; at--) {
      const item = this.#items[at % ringCapacity];
      if (item !== undefined) yield item;
    }
  }

  #removeOldest(): void {
    const place = this.#first++ % ringCapacity;
    const oldest = this.#items[place];
    this.#items[place] = undefined;
    if (oldest !== undefined) this.#textLength -= this.#textLengthOf(oldest);
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

function describeConnection(stored: StoredConnection, worker: number): ConnectionDenial {
  const { record, denial, atMs } = stored;
  const { protocol, sourceAddress: source, serverName, listener, route, rule } = record;
  const counter = describeCounter(denial, stored);
  return {
    kind: "connection",
    at: iso(atMs),
    worker,
    protocol,
    source,
    ...(serverName !== undefined && { serverName: redactText(serverName) }),
    ...(listener !== undefined && { listener }),
    ...(route !== undefined && { route }),
    ...(rule !== undefined && { rule }),
    policy: denial.limit.policy,
    target: denial.limit.target,
    counter,
    remedies: localRemedies(denial, counter),
  };
}

type Counter = NonNullable<GlobalDenial["counter"]>;

function describeCounter(denial: LocalDenial, stored: Pick<StoredDenial, "atMs" | "monotonicMs">): Counter {
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
