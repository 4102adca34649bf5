import type { GlobalLimit } from "../../../ir/global-limit.ts";
import type { PlannedCall } from "./calls.ts";
import type { ServiceOutcome } from "./service-client.ts";

/** Observes the calls of one request. */
export interface CallWatcher {
  /** @returns fields to send with the call: names in lower case and values, in turn; undefined for none. */
  callStarted(limit: GlobalLimit, plan: PlannedCall): readonly string[] | undefined;
  /** @param durationMs Since `called`. */
  callEnded(limit: GlobalLimit, plan: PlannedCall, response: ServiceOutcome, durationMs: number): void;
}
