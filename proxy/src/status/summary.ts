/** The conditions of many objects in a few words, for the log at a start. Pure. */
import type { StatusLine } from "./conditions.ts";

export interface StatusSummary {
  /** By kind. */
  readonly objects: Readonly<Record<string, number>>;
  /** Objects with a condition that tells of a fault. */
  readonly faulty: readonly FaultyObject[];
}

export interface FaultyObject {
  /** `HTTPRoute default/chat` */
  readonly resource: string;
  /** `Accepted=False NotAllowedByListeners: …`, with what it is judged against where there is one. */
  readonly conditions: readonly string[];
}

/** Conditions that are good where they hold; every other type tells of a fault by holding (Gateway API `status`). */
const positive = new Set(["Accepted", "Programmed", "ResolvedRefs", "Attached", "Ready"]);

/** Conditions that one object shows: of its first parents. */
const maxConditions = 5;

export function summaryOf(lines: readonly StatusLine[]): StatusSummary {
  const byResource = Map.groupBy(lines, ({ resource }) => resource);
  const objects: Record<string, number> = {};
  const faulty: FaultyObject[] = [];
  for (const [resource, own] of byResource) {
    const kind = resource.slice(0, resource.indexOf(" "));
    objects[kind] = (objects[kind] ?? 0) + 1;
    const faults = own.filter(isFault);
    if (faults.length > 0) faulty.push({ resource, conditions: faults.slice(0, maxConditions).map(renderCondition) });
  }
  return { objects, faulty };
}

function isFault({ condition, status }: StatusLine): boolean {
  return positive.has(condition) ? status !== "True" : status === "True";
}

function renderCondition({ of, condition, status, reason, message }: StatusLine): string {
  return `${of === undefined ? "" : `${of}: `}${condition}=${status} ${reason}: ${message}`;
}
