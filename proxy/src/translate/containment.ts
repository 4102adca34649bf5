/**
 * Keeps the fault of one object from the others: where a pure function of all resources throws, the objects that make it
 * throw are found and left out. Nothing is known to do so; this is for what nobody has thought of.
 *
 * However many objects are at fault, the function is repeated a few times only: `each-object.ts` names all of one kind at
 * once. Where it names none, each object is tried by itself, and what fails only together with others is searched for.
 */
import type { Steps } from "@gatewayproxy/runtime/steps";
import type { RejectedResource } from "../api/rejected-resource.ts";
import { kindNames, remainsOf, type Resource, type ResourceSet, resourceSet } from "../api/resource.ts";
import { ObjectFaults } from "./each-object.ts";

export interface Contained<T> {
  readonly value: T;
  /** Objects that were left out, for their status; none where nothing threw. */
  readonly culprits: readonly RejectedResource[];
}

/** Computes something of all resources. */
type Compute<T> = (resources: ResourceSet) => Steps<T>;

/**
 * How often objects of one kind and namespace are found at fault, any number of them each time. Of a namespace with more,
 * all objects of the kind are left out: what it writes does not decide how often the function is repeated.
 */
const maxRounds = 8;

/**
 * Computes something from all resources, or from all that can be computed with.
 *
 * @param compute a pure function.
 * @throws what `compute` throws without any resource.
 */
export function* contained<T>(resources: ResourceSet, compute: Compute<T>): Steps<Contained<T>> {
  const whole = yield* attempt(compute(resources));
  if (whole.ok) return { value: whole.value, culprits: [] };
  const remains = new Remains(resources);
  let { error } = whole;
  for (;;) {
    const found = yield* findFaults(error, remains, compute);
    if (found.size === 0) throw whole.error;
    remains.leaveOut(found);
    const rest = yield* attempt(compute(resourceSet(remains.objects())));
    if (rest.ok) return { value: rest.value, culprits: remains.culprits() };
    ({ error } = rest);
  }
}

/** What is at fault, with what was thrown. Empty where it cannot be computed without any object either. */
function* findFaults<T>(error: unknown, remains: Remains, compute: Compute<T>): Steps<ReadonlyMap<Resource, unknown>> {
  const named = error instanceof ObjectFaults ? [...error.byObject] : [];
  const known = named.filter(([object]) => remains.has(object));
  if (known.length > 0) return new Map(known);
  const none = yield* attempt(compute(resourceSet([])));
  if (!none.ok) return new Map();
  const alone = yield* faultsAlone(remains, compute);
  return alone.size > 0 ? alone : yield* faultTogether(remains, compute);
}

/** Objects with which it cannot be computed even without any other. */
function* faultsAlone<T>(remains: Remains, compute: Compute<T>): Steps<ReadonlyMap<Resource, unknown>> {
  const faults = new Map<Resource, unknown>();
  for (const object of remains.untried()) {
    const outcome = yield* attempt(compute(resourceSet([object])));
    if (!outcome.ok) faults.set(object, outcome.error);
  }
  return faults;
}

/** The first object with which, and with those before it, it cannot be computed. */
function* faultTogether<T>(remains: Remains, compute: Compute<T>): Steps<ReadonlyMap<Resource, unknown>> {
  const objects = remains.objects();
  let [sound, faulty] = [0, objects.length];
  while (faulty - sound > 1) {
    const middle = (sound + faulty) >> 1;
    const outcome = yield* attempt(compute(resourceSet(objects.slice(0, middle))));
    if (outcome.ok) sound = middle;
    else faulty = middle;
  }
  const culprit = objects[faulty - 1];
  const outcome = yield* attempt(compute(resourceSet(objects.slice(0, faulty))));
  if (culprit === undefined || outcome.ok) return new Map();
  return new Map([[culprit, outcome.error]]);
}

/** What there is to compute with: all objects, and of those that are at fault what must not be forgotten of them. */
class Remains {
  /** What is left of each object that is not gone, by the object. */
  readonly #left: Map<Resource, Resource>;
  readonly #faults = new Map<Resource, unknown>();
  /** What stands in for an object, and for which. */
  readonly #origins = new Map<Resource, Resource>();
  /** What may yet stand in for an object, the first choice first. */
  readonly #choices = new Map<Resource, Resource[]>();
  readonly #tried = new Set<Resource>();
  /** By `placeOf`. */
  readonly #rounds = new Map<string, number>();

  constructor(resources: ResourceSet) {
    const all = kindNames.flatMap((kind): readonly Resource[] => resources[kind]);
    this.#left = new Map(all.map((object) => [object, object]));
  }

  /** In the order of their kinds. */
  objects(): readonly Resource[] {
    return [...this.#left.values()];
  }

  has(object: Resource): boolean {
    return this.#left.get(this.#origins.get(object) ?? object) === object;
  }

  /** Those that this has not been asked for before. */
  untried(): readonly Resource[] {
    const untried = this.objects().filter((object) => !this.#tried.has(object));
    for (const object of untried) this.#tried.add(object);
    return untried;
  }

  /** @param found what is at fault, with what was thrown. */
  leaveOut(found: ReadonlyMap<Resource, unknown>): void {
    const byPlace = Map.groupBy(found, ([object]) => placeOf(object));
    for (const [place, faults] of byPlace) {
      const rounds = (this.#rounds.get(place) ?? 0) + 1;
      this.#rounds.set(place, rounds);
      for (const [object, fault] of faults) this.#leaveOut(object, fault);
      if (rounds <= maxRounds) continue;
      // What remains of an object stays: a policy must not open what it closes.
      const others = this.objects().filter((object) => placeOf(object) === place && !this.#origins.has(object));
      for (const object of others) this.#leaveOut(object, faults[0]?.[1]);
    }
  }

  #leaveOut(object: Resource, fault: unknown): void {
    const origin = this.#origins.get(object) ?? object;
    const choices = this.#choices.get(origin) ?? remainsFor(origin);
    this.#choices.set(origin, choices);
    if (!this.#faults.has(origin)) this.#faults.set(origin, fault);
    const choice = choices.shift();
    if (choice === undefined) {
      this.#left.delete(origin);
      return;
    }
    this.#left.set(origin, choice);
    this.#origins.set(choice, origin);
  }

  culprits(): readonly RejectedResource[] {
    return Array.from(this.#faults, ([object, error]) => {
      const message = `cannot be processed: ${error instanceof Error ? error.message : String(error)}`;
      const faults = [{ path: [], message, isUnknownField: false }];
      return { object: { ...object }, errors: faults, inForce: this.#left.has(object) ? "remains" : "nothing" };
    });
  }
}

/** Namespace and kind. */
function placeOf({ kind, metadata }: Resource): string {
  return `${kind} ${"namespace" in metadata ? metadata.namespace : ""}`;
}

/**
 * What must not be forgotten of an object that is left out: that it is there. A policy still closes its targets, or, where
 * those cannot be told, every route of its namespace.
 */
function remainsFor(object: Resource): Resource[] {
  const { apiVersion, kind, metadata } = object;
  try {
    const remains: Resource | undefined = remainsOf[kind]?.(object);
    if (remains === undefined) return [];
    return [remains, ...leastOf({ apiVersion, kind, metadata })];
  } catch {
    return leastOf({ apiVersion, kind, metadata });
  }
}

function leastOf(object: Pick<Resource, "apiVersion" | "kind" | "metadata">): Resource[] {
  try {
    return [remainsOf[object.kind]?.(object) ?? []].flat();
  } catch {
    return [];
  }
}

type Attempt<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly error: unknown };

function* attempt<T>(steps: Steps<T>): Steps<Attempt<T>> {
  try {
    return { ok: true, value: yield* steps };
  } catch (error) {
    return { ok: false, error };
  }
}
