/** Decides by the limits of a stream route whether a connection or a session may begin, and holds its place until its end. */
import type { RequestView } from "../cel/request-view.ts";
import { RequestWork } from "../cel/request-work.ts";
import type { LocalDenial } from "../policy/ratelimit/denial.ts";
import type { CounterReservation } from "../policy/ratelimit/counter-reservation.ts";
import type { StreamRecord } from "../telemetry/stream-record.ts";
import type { CompiledStreamRoute } from "./compiled-stream-route.ts";
import type { StreamServices } from "./stream-services.ts";

/** The decision on a connection. */
export type Admission =
  /** `place` is undefined if no limit applies; otherwise it must be released at the end. */
  | { readonly kind: "admitted"; readonly place: CounterReservation | undefined }
  /** `denial` is undefined if the limit could not decide. */
  | { readonly kind: "denied"; readonly denial: LocalDenial | undefined };

/** Decides, and sets `record.decisions`. */
export function admit(route: CompiledStreamRoute, record: StreamRecord, services: StreamServices): Admission {
  if (route.limits.isEmpty) return { kind: "admitted", place: undefined };
  const { clock, ipv6PrefixLength } = services;
  const decision = route.limits.decide(viewOf(record, ipv6PrefixLength), clock.monotonicMs());
  record.decisions = decision.report.decisions;
  if (decision.kind === "allowed") return { kind: "admitted", place: decision.reservation };
  const denial = decision.kind === "denied" ? decision.by : undefined;
  if (denial !== undefined) services.onDenied(record, denial);
  return { kind: "denied", denial };
}

/** Returns the view of expressions: all that reads a request has no value, so that it neither names a counter nor exempts from it. */
export function viewOf(record: StreamRecord, ipv6PrefixLength: number): RequestView {
  const { sourceAddress, serverName, route = "", gateway = "" } = record;
  return {
    isConnection: true,
    method: "",
    path: "",
    authority: "",
    scheme: "",
    rawHeaders: [],
    sourceAddress,
    serverName,
    ipv6PrefixLength,
    route,
    gateway,
    work: new RequestWork(),
  };
}
