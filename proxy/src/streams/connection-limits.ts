/**
 * Decides by the limits of a stream route whether a connection or a session may begin, and holds its place until its
 * end.
 */
import { RequestWork } from "../cel/request-work.ts";
import type { LocalDenial } from "../policy/ratelimit/denial.ts";
import type { CounterReservation } from "../policy/ratelimit/counter-reservation.ts";
import type { StreamRecord } from "../telemetry/stream-record.ts";
import { streamView } from "../telemetry/stream-view.ts";
import type { CompiledStreamRoute } from "./compiled-stream-route.ts";
import type { StreamServices } from "./stream-services.ts";

/** The decision on a connection. */
export type Admission =
  /** `place` is undefined if no limit applies; otherwise it must be released at the end. */
  | { readonly kind: "allowed"; readonly place: CounterReservation | undefined }
  /** `denial` is undefined if the limit could not decide. */
  | { readonly kind: "denied"; readonly denial: LocalDenial | undefined };

/** Decides, and sets `record.decisions`. */
export function admit(route: CompiledStreamRoute, record: StreamRecord, services: StreamServices): Admission {
  if (route.limits.isEmpty) return { kind: "allowed", place: undefined };
  const { clock, ipv6PrefixLength } = services;
  const view = { ...streamView(record), ipv6PrefixLength, work: new RequestWork() };
  const decision = route.limits.decide(view, clock.monotonicMs());
  record.decisions = decision.report.decisions;
  if (decision.kind === "allowed") return { kind: "allowed", place: decision.reservation };
  const denial = decision.kind === "denied" ? decision.by : undefined;
  if (denial !== undefined) services.onDenied(record, denial);
  return { kind: "denied", denial };
}
