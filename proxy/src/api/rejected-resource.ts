/** An object that the API server accepts and the parser rejects, in whole or in part. Its status reports that. */
import { joinSome } from "@gatewayproxy/runtime/bounded-text";
import { type FieldError, renderPath } from "./issue.ts";

/** A rejected object, its errors, and what is in force instead. */
export interface RejectedResource {
  /** The part of the object that its status and the log need. */
  readonly object: Readonly<Record<string, unknown>>;
  readonly errors: readonly FieldError[];
  /**
   * The version in force: nothing, the last valid version, the valid rules of this version, or its remains
   * (`remainsOf`).
   */
  readonly inForce: "nothing" | "lastValidVersion" | "validRules" | "remains";
}

/**
 * Whether the last valid version of an object of this kind stays in force while its current version is rejected. That
 * of a ReferenceGrant does not: the edit may withdraw a permission, which would stay until someone corrects it.
 */
export function keepsLastValidVersion(kind: unknown): boolean {
  return kind !== "ReferenceGrant";
}

/** Renders the errors as one text of bounded length, for a condition. */
export function renderErrors(errors: readonly FieldError[]): string {
  return joinSome(errors.map(({ path, message }) => (path.length === 0 ? message : `${renderPath(path)}: ${message}`)));
}
