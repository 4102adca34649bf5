/**
 * Keeps the fault of one object from the others: where a pure function of all resources throws, the objects that make it
 * throw are found and left out. Nothing is known to do so; this is for what nobody has thought of.
 */
import type { RejectedResource } from "../api/rejected-resource.ts";
import { kindNames, remainsOf, type Resource, type ResourceSet, resourceSet } from "../api/resource.ts";

export interface Contained<T> {
  readonly value: T;
  /** Objects that were left out, for their status; none where nothing threw. */
  readonly culprits: readonly RejectedResource[];
}

/** More than that is no fault of single objects. */
const maxCulprits = 32;

/**
 * Computes something from all resources, or from all that can be computed with.
 *
 * @param compute a pure function; it is called some ten times for each culprit.
 * @throws what `compute` throws without any resource, or with too many culprits.
 */
export function contained<T>(resources: ResourceSet, compute: (resources: ResourceSet) => T): Contained<T> {
  const first = attempt(() => compute(resources));
  if (first.ok) return { value: first.value, culprits: [] };
  // Routes and policies last, as they build on the others.
  let left: readonly Resource[] = kindNames.flatMap((kind): readonly Resource[] => resources[kind]);
  const culprits: RejectedResource[] = [];
  while (culprits.length < maxCulprits) {
    const at = firstFault(left, compute);
    if (at === undefined) break;
    const culprit = left[at];
    const outcome = attempt(() => compute(resourceSet(left.slice(0, at + 1))));
    if (culprit === undefined || outcome.ok) break;
    const remains = remainsWith(culprit, (resource) => compute(resourceSet([...left.slice(0, at), resource])));
    left = [...left.slice(0, at), ...(remains === undefined ? [] : [remains]), ...left.slice(at + 1)];
    culprits.push(refused(culprit, outcome.error, remains !== undefined));
    const whole = attempt(() => compute(resourceSet(left)));
    if (whole.ok) return { value: whole.value, culprits };
  }
  throw first.error;
}

/**
 * What must not be forgotten of an object that is left out: that it is there. A policy still closes its targets, or, where
 * those cannot be told, every route of its namespace. Undefined where nothing remains, or that cannot be computed with.
 */
function remainsWith(culprit: Resource, compute: (resource: Resource) => unknown): Resource | undefined {
  const { apiVersion, kind, metadata } = culprit;
  for (const part of [() => culprit, () => ({ apiVersion, kind, metadata })]) {
    const remains = attempt(() => remainsOf[kind]?.(part()));
    if (remains.ok && remains.value === undefined) return undefined;
    const { value } = remains.ok ? remains : { value: undefined };
    if (value !== undefined && attempt(() => compute(value)).ok) return value;
  }
  return undefined;
}

function refused(resource: Resource, error: unknown, isLeft: boolean): RejectedResource {
  const message = `cannot be processed: ${error instanceof Error ? error.message : String(error)}`;
  const faults = [{ path: [], message, isUnknownField: false }];
  return { object: { ...resource }, faults, inForce: isLeft ? "remains" : "nothing" };
}

/** The first object with which, and with those before it, it cannot be computed; undefined where it cannot without any. */
function firstFault(objects: readonly Resource[], compute: (resources: ResourceSet) => unknown): number | undefined {
  if (!attempt(() => compute(resourceSet([]))).ok) return undefined;
  let [sound, faulty] = [0, objects.length];
  while (faulty - sound > 1) {
    const middle = (sound + faulty) >> 1;
    if (attempt(() => compute(resourceSet(objects.slice(0, middle)))).ok) sound = middle;
    else faulty = middle;
  }
  return faulty - 1;
}

type Attempt<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly error: unknown };

function attempt<T>(act: () => T): Attempt<T> {
  try {
    return { ok: true, value: act() };
  } catch (error) {
    return { ok: false, error };
  }
}
