/** Statuses that are too long to be kept. */
import { hashOfText } from "@gatewayproxy/runtime/text-hash";
import { isObject } from "./object.ts";

/** A status of which nothing else is kept. */
export interface LongStatus {
  readonly hashOfWhole: number;
}

/** Whether only the hash of a status is kept. */
export function isLongStatus(status: unknown): status is LongStatus {
  return isObject(status) && typeof status["hashOfWhole"] === "number";
}

/** Returns what is kept of a status that is too long, or for which there is no room. A change of it is still seen. */
export function longStatusOf(status: unknown): LongStatus {
  if (isLongStatus(status)) return status;
  return { hashOfWhole: hashOfText(JSON.stringify(status ?? null)) };
}
