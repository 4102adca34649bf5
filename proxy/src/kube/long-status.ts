/** Statuses that are too long to be kept. */
import { isObject } from "./object.ts";

/** A status of which nothing else is kept. */
export interface LongStatus {
  readonly hashOfWhole: number;
}

/** Whether only the hash of a status is kept. */
export function isLongStatus(status: unknown): status is LongStatus {
  return isObject(status) && typeof status["hashOfWhole"] === "number";
}
