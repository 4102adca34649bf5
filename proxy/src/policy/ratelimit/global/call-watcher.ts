import type { GlobalLimit } from "../../../ir/global-limit.ts";
import type { PlannedCall } from "./calls.ts";
import type { Answer } from "./service-client.ts";

/** Hears of the calls that are made for one request; absent for nearly all requests. */
export interface CallWatcher {
  asked(limit: GlobalLimit, question: PlannedCall): void;
  /** @param durationMs since `asked`. */
  answered(limit: GlobalLimit, question: PlannedCall, answer: Answer, durationMs: number): void;
}
