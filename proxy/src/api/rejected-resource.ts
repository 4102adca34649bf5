/** An object of the API server that the parser refuses, as a whole or in part: its status must say so. */
import { type FieldFault, renderPath } from "./issue.ts";

export interface RejectedResource {
  /** As the API server gives it. */
  readonly object: Readonly<Record<string, unknown>>;
  readonly faults: readonly FieldFault[];
  /** What is in force in its place: an earlier version, as much of this one as is sound, or what `remainsOf` leaves. */
  readonly inForce: "nothing" | "lastSoundVersion" | "soundRules" | "remains";
}

/** All faults as one sentence, for a condition. */
export function renderFaults(faults: readonly FieldFault[]): string {
  const sentences = faults.map(({ path, message }) =>
    path.length === 0 ? message : `${renderPath(path)}: ${message}`,
  );
  return [...new Set(sentences)].join("; ");
}
