/** An object of the API server that the parser refuses, as a whole or in part: its status must say so. */
import { joinSome } from "@gatewayproxy/runtime/bounded-text";
import { type FieldFault, renderPath } from "./issue.ts";

export interface RejectedResource {
  /** As the API server gives it. */
  readonly object: Readonly<Record<string, unknown>>;
  readonly faults: readonly FieldFault[];
  /** What is in force in its place: an earlier version, as much of this one as is sound, or what `remainsOf` leaves. */
  readonly inForce: "nothing" | "lastSoundVersion" | "soundRules" | "remains";
}

/** The faults as one sentence of bounded length, for a condition. */
export function renderFaults(faults: readonly FieldFault[]): string {
  return joinSome(faults.map(({ path, message }) => (path.length === 0 ? message : `${renderPath(path)}: ${message}`)));
}
