/** Statuses that are too long to be kept. */
import { isObject } from "./object.ts";

/** The hash that is kept in place of such a status. */
export interface LongStatus {
  /** A hash of the status. */
  readonly isTooLong: number;
}

/** Whether a status is the hash of a longer one. */
export function isLongStatus(status: unknown): status is LongStatus {
  return isObject(status) && typeof status["isTooLong"] === "number";
}
