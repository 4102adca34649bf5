/** A short summary of the conditions of many objects, for the log at the start. Pure. */
import type { StatusLine } from "./conditions.ts";

/** The number of objects, and the objects with a problem. */
export interface StatusSummary {
  /** The number of objects by kind. */
  readonly objects: Readonly<Record<string, number>>;
  /** Objects with a condition that reports a problem. */
  readonly faulty: readonly ObjectWithProblems[];
}

/** An object with a condition that reports a problem. */
export interface ObjectWithProblems {
  /** `HTTPRoute default/chat` */
  readonly resource: string;
  /**
   * `Accepted=False NotAllowedByListeners: …`, after the parent, target or listener to which the condition refers, if
   * any.
   */
  readonly conditions: readonly string[];
}

/**
 * Conditions whose normal status is True. Each other type reports a problem when it is True (Gateway API, "status").
 */
const positiveTypes = new Set(["Accepted", "Programmed", "ResolvedRefs", "Attached", "Ready"]);

/** The maximum number of conditions of one object in the summary. */
const maxConditions = 5;

/** Summarizes the conditions of all objects. */
export function summaryOf(lines: readonly StatusLine[]): StatusSummary {
  const byResource = Map.groupBy(lines, ({ resource }) => resource);
  const objects: Record<string, number> = {};
  const faulty: ObjectWithProblems[] = [];
  for (const [resource, own] of byResource) {
    const kind = resource.slice(0, resource.indexOf(" "));
    objects[kind] = (objects[kind] ?? 0) + 1;
    const problems = own.filter(isProblem);
    if (problems.length > 0) {
      faulty.push({ resource, conditions: problems.slice(0, maxConditions).map(renderCondition) });
    }
  }
  return { objects, faulty };
}

function isProblem({ condition, status }: StatusLine): boolean {
  return positiveTypes.has(condition) ? status !== "True" : status === "True";
}

function renderCondition({ of, condition, status, reason, message }: StatusLine): string {
  return `${of === undefined ? "" : `${of}: `}${condition}=${status} ${reason}: ${message}`;
}
