/** Builders for entries and requests: a test names what it is about and nothing else. */
import type { RequestView } from "../../../cel/request-view.ts";
import { countedSubWindows } from "@gatewayproxy/runtime/sliding-window";
import type { LocalLimit } from "../../../ir/limit.ts";
import type { TokenUsage } from "../../../ir/usage.ts";
import { CounterTable, createCounters } from "../counter-table.ts";
import type { LocalDenial } from "../denial.ts";
import type { LocalDecision, LocalReport } from "../local-limiter.ts";
import { type WallClock, type Window } from "../window.ts";

type Shape = Partial<LocalLimit>;

/** A `requests` entry of policy default/chat on HTTPRoute default/chat; 10 a minute. */
export function requestsLimit(shape: Shape = {}): LocalLimit {
  return limitOf({ counts: "requests", amount: 10, ...shape });
}

/** A `tokens` entry of the same policy; 1000 a minute. */
export function tokensLimit(shape: Shape = {}): LocalLimit {
  return limitOf({ counts: "tokens", amount: 1000, ...shape });
}

/** A `concurrent` entry of the same policy; 4 at once. */
export function concurrentLimit(shape: Shape = {}): LocalLimit {
  return limitOf({ counts: "concurrent", amount: 4, ...shape });
}

function limitOf(shape: Shape & Pick<LocalLimit, "counts" | "amount">): LocalLimit {
  const { unit = "Minutes", burst = 0, target = "HTTPRoute/default/chat", policy = "default/chat" } = shape;
  return {
    counter: `${policy} ${target} ${shape.counts} ${shape.amount}/${unit}+${burst}`,
    policy,
    entry: 0,
    target,
    ...(shape.counts === "concurrent" ? {} : { unit }),
    burst,
    mode: "Enforce",
    ...shape,
  };
}

export const request: RequestView = {
  method: "POST",
  path: "/v1/chat/completions",
  authority: "chat.example.com",
  scheme: "http",
  rawHeaders: ["host", "chat.example.com"],
  sourceAddress: "192.0.2.7",
  route: "default/chat",
  gateway: "default/public",
};

/** The same request from the client that sends this key. */
export function requestOf(client: string): RequestView {
  return { ...request, rawHeaders: [...request.rawHeaders, "X-Api-Key", client] };
}

/** A table that is small and this thread's alone. */
export function freshTable(counters = 1024): CounterTable {
  return new CounterTable(createCounters(counters, 2), 1);
}

/** The variables of a counter with a window that is open since `startMs`. */
export function openWindow(used: number, startMs = 0): Window {
  return { used, startMs, lengthMs: 0, epoch: 0, subWindowUnits: new Uint32Array(countedSubWindows) };
}

/** The wall clock of tests whose monotonic times are times since 1970. */
export const sameClock: WallClock = { nowMs: () => 0, monotonicMs: () => 0 };

/** The usage of a response that reports a total alone. */
export function tokens(total: number): TokenUsage {
  return { total, estimated: false };
}

/** An allowed request with its report. */
export interface AllowedRequest extends LocalReport {
  readonly reservation: {
    readonly charge: (total: number, nowMs: number) => void;
    readonly refund: (nowMs: number) => void;
  };
}

/** Throws when the request was denied. */
export function allowed(decision: LocalDecision): AllowedRequest {
  if (decision.kind !== "allowed") throw new Error(`the request is ${decision.kind}`);
  const { reservation, report } = decision;
  return {
    ...report,
    reservation: {
      charge: (total, nowMs) => reservation.charge(tokens(total), nowMs),
      refund: (nowMs) => void reservation.refund(nowMs),
    },
  };
}

/** Throws when the request was allowed. */
export function denied(decision: LocalDecision): LocalDenial {
  if (decision.kind !== "denied") throw new Error("allowed");
  return decision.by;
}
