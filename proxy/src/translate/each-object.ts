/**
 * Steps through objects of users, one after the other, so that the event loop can have its turn after each. Where the
 * computation of one throws, the others are computed all the same, and the objects at fault are named together at the
 * end: `containment.ts` leaves them out.
 */
import type { Steps } from "@gatewayproxy/runtime/steps";
import type { Resource } from "../api/resource.ts";

/** Objects with which something could not be computed. */
export class ObjectFaults extends Error {
  /** What was thrown, by object. */
  readonly byObject: ReadonlyMap<Resource, unknown>;

  constructor(byObject: ReadonlyMap<Resource, unknown>) {
    super(`cannot process ${byObject.size} objects`);
    this.byObject = byObject;
  }
}

/** For items that are objects. */
export const itself = (object: Resource): Resource => object;

/** @throws `ObjectFaults` after the last object. */
export function eachObject<Item, Value>(
  items: Iterable<Item>,
  objectOf: (item: Item) => Resource,
  compute: (item: Item) => Value,
): Steps<Value[]> {
  return eachObjectInSteps(items, objectOf, function* (item) {
    return compute(item);
  });
}

/** The same where the computation of one object has steps of its own. What it blames on other objects stays theirs. */
export function* eachObjectInSteps<Item, Value>(
  items: Iterable<Item>,
  objectOf: (item: Item) => Resource,
  compute: (item: Item) => Steps<Value>,
): Steps<Value[]> {
  const values: Value[] = [];
  const faults = new Map<Resource, unknown>();
  for (const item of items) {
    try {
      values.push(yield* compute(item));
    } catch (error) {
      if (error instanceof ObjectFaults) for (const [object, fault] of error.byObject) faults.set(object, fault);
      else faults.set(objectOf(item), error);
    }
    yield;
  }
  if (faults.size > 0) throw new ObjectFaults(faults);
  return values;
}

/** Computes something of an object that others build on: what is wrong with it is no fault of theirs. */
export function blaming<Value>(object: Resource, compute: () => Value): Value {
  try {
    return compute();
  } catch (error) {
    throw error instanceof ObjectFaults ? error : new ObjectFaults(new Map([[object, error]]));
  }
}
