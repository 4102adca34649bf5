/**
 * Values that are kept from one computation to the next, so that a computation costs what has changed. A value depends
 * only on immutable objects, which are compared by identity, so it is the same as if it were computed again.
 */
import { isDeepStrictEqual } from "node:util";
import type { Steps } from "../timing/steps.ts";

/** Returns a function that computes its value for an immutable object once, and keeps it as long as the object. */
export function memoised<Key extends WeakKey, Value>(compute: (key: Key) => Value): (key: Key) => Value {
  const known = new WeakMap<Key, Value>();
  return (key) => {
    const found = known.get(key);
    // A known value may be undefined.
    if (found !== undefined || known.has(key)) return found as Value;
    const value = compute(key);
    known.set(key, value);
    return value;
  };
}

/**
 * Returns a function that computes its value for an immutable object and further inputs, and keeps the last value of
 * each object: it is computed again only if one of the inputs is not the same as before.
 */
export function memoisedWith<Key extends WeakKey, Inputs extends readonly unknown[], Value>(
  compute: (key: Key, ...inputs: Inputs) => Value,
): (key: Key, ...inputs: Inputs) => Value {
  const known = new WeakMap<Key, { readonly inputs: Inputs; readonly value: Value }>();
  return (key, ...inputs) => {
    const found = known.get(key);
    if (found !== undefined && hasSameItems(found.inputs, inputs)) return found.value;
    const value = compute(key, ...inputs);
    known.set(key, { inputs, value });
    return value;
  };
}

/** As `memoisedWith`, for computations with steps. */
export function memoisedInSteps<Key extends WeakKey, Inputs extends readonly unknown[], Value>(
  compute: (key: Key, ...inputs: Inputs) => Steps<Value>,
): (key: Key, ...inputs: Inputs) => Steps<Value> {
  const known = new KnownValues<Key, Value>();
  return (key, ...inputs) => known.get(key, inputs, () => compute(key, ...inputs));
}

/** The last value of each object, with the inputs from which it was computed. */
export class KnownValues<Key extends WeakKey, Value> {
  readonly #known = new WeakMap<Key, { readonly inputs: readonly unknown[]; readonly value: Value }>();

  /**
   * Returns the last value for these inputs, or computes it.
   *
   * @param compute must depend on nothing but the key and the inputs.
   */
  *get(key: Key, inputs: readonly unknown[], compute: () => Steps<Value>): Steps<Value> {
    const found = this.#known.get(key);
    if (found !== undefined && hasSameItems(found.inputs, inputs)) return found.value;
    const value = yield* compute();
    this.#known.set(key, { inputs, value });
    return value;
  }
}

/**
 * Returns a function that keeps the last value of each object, and returns it instead of an equal one, so that what is
 * memoised for the value stays.
 *
 * @param isEqual default: values are compared in depth.
 */
export function keepingEqual<Value>(
  isEqual: (a: Value, b: Value) => boolean = isDeepStrictEqual,
): (key: WeakKey, value: Value) => Value {
  const known = new WeakMap<WeakKey, Value>();
  return (key, value) => {
    const found = known.get(key);
    if (found !== undefined && isEqual(found, value)) return found;
    known.set(key, value);
    return value;
  };
}

/** The last lists that began with an object, the last used one first. */
const lists = new WeakMap<object, readonly (readonly object[])[]>();
const emptyList: readonly never[] = [];

/**
 * All objects of a kind and those of one Gateway begin with the same object. More lists would keep many replaced
 * objects in memory.
 */
const maxLists = 2;

/** Returns an earlier list with the same items if there is one, so that what is memoised for the list stays. */
export function sameList<Item extends object>(list: readonly Item[]): readonly Item[] {
  const [first] = list;
  if (first === undefined) return emptyList;
  const known = lists.get(first) ?? [];
  // A list with the same items is of the same type.
  const used = (known.find((each) => hasSameItems(each, list)) ?? list) as readonly Item[];
  if (used !== known[0]) lists.set(first, [used, ...known.filter((each) => each !== used)].slice(0, maxLists));
  return used;
}

/** Whether two lists have the same items in the same order, by identity. */
export function hasSameItems(a: readonly unknown[], b: readonly unknown[]): boolean {
  if (a === b) return true;
  if (a.length !== b.length) return false;
  for (let at = 0; at < a.length; at++) if (a[at] !== b[at]) return false;
  return true;
}
