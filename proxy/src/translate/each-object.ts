/**
 * Computes values for objects of users, in a step for each, so that the event loop can run in between. If the
 * computation for one throws, the others are still computed. An error at the end names all failed objects, and
 * `containment.ts` omits them.
 */
import type { Steps } from "@gatewayproxy/runtime/steps";
import type { Pages } from "@gatewayproxy/runtime/lists";
import type { Resource } from "../api/resource.ts";

/** The objects for which a computation failed. */
export class ObjectErrors extends Error {
  /** The errors, by object. */
  readonly byObject: ReadonlyMap<Resource, unknown>;

  constructor(byObject: ReadonlyMap<Resource, unknown>) {
    super(`cannot process ${byObject.size} objects`);
    this.byObject = byObject;
  }
}

/** For items that are objects. */
export const itself = (object: Resource): Resource => object;

/** The number of objects in a step. Most are quick, and a step costs as much as a quick one. */
const quickObjectsPerStep = 8;

/**
 * A step for a few objects.
 *
 * @param objectsPerStep 1 for a computation that takes long for some objects.
 * @throws `ObjectErrors` after the last object.
 */
export function* eachObject<Item, Value>(
  items: Iterable<Item>,
  objectOf: (item: Item) => Resource,
  compute: (item: Item) => Value,
  objectsPerStep = quickObjectsPerStep,
): Steps<Value[]> {
  const values: Value[] = [];
  const errors = new Map<Resource, unknown>();
  let count = 0;
  for (const item of items) {
    try {
      values.push(compute(item));
    } catch (error) {
      addError(errors, objectOf(item), error);
    }
    if (++count % objectsPerStep === 0) yield;
  }
  if (errors.size > 0) throw new ObjectErrors(errors);
  return values;
}

function addError(errors: Map<Resource, unknown>, object: Resource, error: unknown): void {
  if (error instanceof ObjectErrors) for (const [own, objectError] of error.byObject) errors.set(own, objectError);
  else errors.set(object, error);
}

/**
 * As `eachObject`, for computations with steps. Failures that `attributing` attributes to other objects stay theirs.
 */
export function* eachObjectInSteps<Item, Value>(
  items: Iterable<Item>,
  objectOf: (item: Item) => Resource,
  compute: (item: Item) => Steps<Value>,
): Steps<Value[]> {
  const values: Value[] = [];
  const errors = new Map<Resource, unknown>();
  for (const item of items) {
    try {
      values.push(yield* compute(item));
    } catch (error) {
      addError(errors, objectOf(item), error);
    }
    yield;
  }
  if (errors.size > 0) throw new ObjectErrors(errors);
  return values;
}

/**
 * Computes a value for each page of objects. If the computation for one fails with `ObjectErrors`, the others are still
 * computed.
 *
 * @throws `ObjectErrors` after the last page.
 */
export function* eachPage<Item, Value>(
  pages: Pages<Item>,
  compute: (page: readonly Item[]) => Steps<Value>,
): Steps<Value[]> {
  const values: Value[] = [];
  const errors = new Map<Resource, unknown>();
  for (const page of pages) {
    try {
      values.push(yield* compute(page));
    } catch (error) {
      if (!(error instanceof ObjectErrors)) throw error;
      for (const [object, objectError] of error.byObject) errors.set(object, objectError);
    }
    yield;
  }
  if (errors.size > 0) throw new ObjectErrors(errors);
  return values;
}

/** Computes a value of an object for others that refer to it. A failure is attributed to this object, not to them. */
export function attributing<Value>(object: Resource, compute: () => Value): Value {
  try {
    return compute();
  } catch (error) {
    throw error instanceof ObjectErrors ? error : new ObjectErrors(new Map([[object, error]]));
  }
}
