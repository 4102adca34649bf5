/**
 * The objects from which a plan is computed. Most changes that a controller sees are statuses that it has written
 * itself. A plan does not depend on them, and what is computed of an object is kept as long as it is the same object
 * (ADR 61). Pure.
 */
import { isDeepStrictEqual } from "node:util";
import { commonEnds, differenceBetween, type ListChange } from "@gatewayproxy/runtime/lists";
import { hasSameItems, sameList } from "@gatewayproxy/runtime/memoised";
import { objectKey } from "@gatewayproxy/runtime/object-key";
import type { Steps } from "@gatewayproxy/runtime/steps";
import type { Resource, ResourceSet } from "../api/resource.ts";
import type { KubernetesConfiguration } from "../source/kubernetes/kubernetes-source.ts";

/** The part of a configuration from which a plan is computed. */
export type PlanInput = Pick<KubernetesConfiguration, "resources" | "rejected" | "unreadable" | "crowded">;

/** The inputs of successive plans. */
export class PlanInputs {
  /** The last input, and the resources of the configuration for which it was returned. */
  #last: { readonly input: PlanInput; readonly from: ResourceSet } | undefined;
  /** The version from which plans are computed in place of an object, where that is another one. */
  readonly #planned = new WeakMap<Resource, Resource>();

  /**
   * Returns the input for a configuration: in place of an object that differs from the one of the last input only by
   * its status, it has that one. Returns the last input itself if nothing else differs. A step for each object that has
   * changed: to compare a large one takes milliseconds.
   */
  *next(configuration: PlanInput): Steps<PlanInput> {
    const { rejected, unreadable, crowded } = configuration;
    const last = this.#last;
    const resources = yield* this.#plannedVersions(configuration.resources);
    const isSame =
      last !== undefined &&
      kindsOf(resources).every((kind) => resources[kind] === last.input.resources[kind]) &&
      isDeepStrictEqual([unreadable, crowded], [last.input.unreadable, last.input.crowded]) &&
      (yield* areEqual(rejected, last.input.rejected));
    const input = isSame ? last.input : { resources, rejected, unreadable, crowded };
    this.#last = { input, from: configuration.resources };
    return input;
  }

  /** Returns the same list for a kind of which no version differs. */
  *#plannedVersions(current: ResourceSet): Steps<ResourceSet> {
    const last = this.#last;
    if (last === undefined) return current;
    const lists: (readonly [string, readonly Resource[]])[] = [];
    for (const kind of kindsOf(current)) {
      const planned = last.input.resources[kind];
      const isChanged = current[kind] !== last.from[kind];
      if (isChanged) yield* this.#keepVersions(differenceBetween<Resource>(last.from[kind], current[kind]));
      const versions = isChanged ? this.#versionsOf(current[kind], last.from[kind], planned) : planned;
      lists.push([kind, hasSameItems(planned, versions) ? planned : sameList(versions)]);
    }
    // Each list has the objects of its kind.
    return Object.fromEntries(lists) as ResourceSet;
  }

  /** Takes the last versions in place of new ones that differ from them only by their status. */
  *#keepVersions({ removed, added }: ListChange<Resource>): Steps<void> {
    const before = new Map(removed.map((object) => [objectKey(object.metadata), this.#plannedVersion(object)]));
    for (const object of added) {
      const version = before.get(objectKey(object.metadata));
      if (version !== undefined && isSameExceptStatus(version, object)) this.#planned.set(object, version);
      yield;
    }
  }

  /**
   * Returns the versions of a list from those of the last one. To look them up takes much longer than to compare the
   * lists, which are the same at both ends.
   */
  #versionsOf(
    current: readonly Resource[],
    before: readonly Resource[],
    planned: readonly Resource[],
  ): readonly Resource[] {
    const { start, end } = commonEnds(before, current);
    const changed = current.slice(start, current.length - end).map((object) => this.#plannedVersion(object));
    return planned.slice(0, start).concat(changed, planned.slice(planned.length - end));
  }

  #plannedVersion(object: Resource): Resource {
    return this.#planned.get(object) ?? object;
  }
}

function kindsOf(resources: ResourceSet): readonly (keyof ResourceSet)[] {
  // The set has a list for each kind, and nothing else.
  return Object.keys(resources) as (keyof ResourceSet)[];
}

/** Unchanged objects of the cluster are identical values, so few are compared. */
function* areEqual(a: readonly object[], b: readonly object[]): Steps<boolean> {
  if (a.length !== b.length) return false;
  for (const [at, item] of a.entries()) {
    if (item === b[at]) continue;
    if (!isDeepStrictEqual(item, b[at])) return false;
    yield;
  }
  return true;
}

function isSameExceptStatus(a: object, b: object): boolean {
  return a === b || isDeepStrictEqual(withoutStatus(a), withoutStatus(b));
}

function withoutStatus(object: object): object {
  return { ...object, status: undefined };
}
