import type { GlobalLimit } from "../../../ir/global-limit.ts";
import type { PlannedCall } from "./calls.ts";
import type { RateLimitRequest } from "./messages.ts";
import type { ObservedCall, ServiceOutcome } from "./service-call.ts";
import type { Method } from "./service-client.ts";

/** Observes the calls of one request. */
export interface CallWatcher {
  /** @returns fields to send with the call: names in lower case and values, in turn; undefined for none. */
  callStarted(limit: GlobalLimit, plan: PlannedCall): readonly string[] | undefined;
  /** @param durationMs Since `called`. */
  callEnded(limit: GlobalLimit, plan: PlannedCall, response: ServiceOutcome, durationMs: number): void;
  /**
   * A call begins after the decision on the request: a charge, a refund, or another check. It may end after the
   * request.
   *
   * @returns undefined if it is not observed.
   */
  laterCallStarted(limit: GlobalLimit, method: Method, call: RateLimitRequest): ObservedCall | undefined;
}
