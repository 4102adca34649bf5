import type { GlobalLimit } from "../../../ir/global-limit.ts";
import type { PlannedCall } from "./calls.ts";
import type { ServiceOutcome } from "./service-client.ts";

/** Observes the calls of one request. Absent for nearly all requests. */
export interface CallWatcher {
  callStarted(limit: GlobalLimit, plan: PlannedCall): void;
  /** @param durationMs Since `called`. */
  callEnded(limit: GlobalLimit, plan: PlannedCall, response: ServiceOutcome, durationMs: number): void;
}
