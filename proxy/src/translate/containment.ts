/**
 * Isolates the failure of one object from the others: if a pure function of all resources throws, this finds the
 * objects that make it throw and omits them. No object is known to do so; this covers unknown errors.
 *
 * The function is repeated only a few times, however many objects fail, since `each-object.ts` names all of one kind at
 * once. If it names none, each object is tried alone, and objects that fail only together with others are searched for.
 */
import type { Steps } from "@gatewayproxy/runtime/steps";
import { errorMessage } from "@gatewayproxy/runtime/thrown-value";
import type { RejectedResource } from "../api/rejected-resource.ts";
import { kindNames, remainsOf, type Resource, type ResourceSet, resourceSet } from "../api/resource.ts";
import { ObjectErrors } from "./each-object.ts";

/** The value of the function, without the objects that make it throw. */
export interface Contained<T> {
  readonly value: T;
  /** Omitted objects, for their status; empty if nothing threw. */
  readonly culprits: readonly RejectedResource[];
}

/** A computation from all resources. */
type Compute<T> = (resources: ResourceSet) => Steps<T>;

/**
 * The number of rounds in which objects of one kind and namespace may fail, any number of them in each round. After
 * more rounds, all objects of the kind in the namespace are omitted, so that a namespace does not determine the
 * repetitions.
 */
const maxRounds = 8;

/**
 * Computes a value from all resources, or from all that do not make the computation fail.
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
    const found = yield* findErrors(error, remains, compute);
    if (found.size === 0) throw whole.error;
    remains.leaveOut(found);
    const rest = yield* attempt(compute(resourceSet(remains.objects())));
    if (rest.ok) return { value: rest.value, culprits: remains.culprits() };
    ({ error } = rest);
  }
}

/** Returns the failed objects with their errors. Empty if the computation fails without any object. */
function* findErrors<T>(error: unknown, remains: Remains, compute: Compute<T>): Steps<ReadonlyMap<Resource, unknown>> {
  const named = error instanceof ObjectErrors ? [...error.byObject] : [];
  const known = named.filter(([object]) => remains.has(object));
  if (known.length > 0) return new Map(known);
  const none = yield* attempt(compute(resourceSet([])));
  if (!none.ok) return new Map();
  const alone = yield* faultsAlone(remains, compute);
  return alone.size > 0 ? alone : yield* faultTogether(remains, compute);
}

/** Returns the objects that make the computation fail without any other object. */
function* faultsAlone<T>(remains: Remains, compute: Compute<T>): Steps<ReadonlyMap<Resource, unknown>> {
  const errors = new Map<Resource, unknown>();
  for (const object of remains.untried()) {
    const outcome = yield* attempt(compute(resourceSet([object])));
    if (!outcome.ok) errors.set(object, outcome.error);
  }
  return errors;
}

/** Returns the first object that makes the computation fail together with those before it. */
function* faultTogether<T>(remains: Remains, compute: Compute<T>): Steps<ReadonlyMap<Resource, unknown>> {
  const objects = remains.objects();
  let [valid, failing] = [0, objects.length];
  while (failing - valid > 1) {
    const middle = (valid + failing) >> 1;
    const outcome = yield* attempt(compute(resourceSet(objects.slice(0, middle))));
    if (outcome.ok) valid = middle;
    else failing = middle;
  }
  const culprit = objects[failing - 1];
  const outcome = yield* attempt(compute(resourceSet(objects.slice(0, failing))));
  if (culprit === undefined || outcome.ok) return new Map();
  return new Map([[culprit, outcome.error]]);
}

/** The objects of the next attempt: all valid ones, and for failed ones the objects that represent them. */
class Remains {
  /** By original object: the object itself, or the one that represents it. */
  readonly #left: Map<Resource, Resource>;
  readonly #errors = new Map<Resource, unknown>();
  /** By representing object: the original. */
  readonly #origins = new Map<Resource, Resource>();
  /** By original object: objects that can still represent it, in the order of preference. */
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

  /** The objects that previous calls have not returned. */
  untried(): readonly Resource[] {
    const untried = this.objects().filter((object) => !this.#tried.has(object));
    for (const object of untried) this.#tried.add(object);
    return untried;
  }

  /** @param found the failed objects with their errors. */
  leaveOut(found: ReadonlyMap<Resource, unknown>): void {
    const byPlace = Map.groupBy(found, ([object]) => placeOf(object));
    for (const [place, errors] of byPlace) {
      const rounds = (this.#rounds.get(place) ?? 0) + 1;
      this.#rounds.set(place, rounds);
      for (const [object, error] of errors) this.#leaveOut(object, error);
      if (rounds <= maxRounds) continue;
      // Representing objects are kept: a policy must still close its targets.
      const others = this.objects().filter((object) => placeOf(object) === place && !this.#origins.has(object));
      for (const object of others) this.#leaveOut(object, errors[0]?.[1]);
    }
  }

  #leaveOut(object: Resource, error: unknown): void {
    const origin = this.#origins.get(object) ?? object;
    const choices = this.#choices.get(origin) ?? remainsFor(origin);
    this.#choices.set(origin, choices);
    if (!this.#errors.has(origin)) this.#errors.set(origin, error);
    const choice = choices.shift();
    if (choice === undefined) {
      this.#left.delete(origin);
      return;
    }
    this.#left.set(origin, choice);
    this.#origins.set(choice, origin);
  }

  culprits(): readonly RejectedResource[] {
    return Array.from(this.#errors, ([object, thrown]) => {
      const message = `cannot be processed: ${errorMessage(thrown)}`;
      const errors = [{ path: [], message, isUnknownField: false }];
      return { object: { ...object }, errors, inForce: this.#left.has(object) ? "remains" : "nothing" };
    });
  }
}

/** Namespace and kind. */
function placeOf({ kind, metadata }: Resource): string {
  return `${kind} ${"namespace" in metadata ? metadata.namespace : ""}`;
}

/**
 * Returns objects that represent an omitted one, since its existence matters: a policy still closes its targets or, if
 * they are unknown, every route of its namespace.
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
