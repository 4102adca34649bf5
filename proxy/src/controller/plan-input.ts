/**
 * The objects from which a plan is computed. Most changes that a controller sees are statuses that it has written itself. A plan
 * does not depend on them, and what is computed of an object is kept as long as it is the same object (ADR 61). Pure.
 */
import { isDeepStrictEqual } from "node:util";
import { differenceBetween, type ListChange } from "@gatewayproxy/runtime/lists";
import { hasSameItems, sameList } from "@gatewayproxy/runtime/memoised";
import { objectKey } from "@gatewayproxy/runtime/object-key";
import type { Resource, ResourceSet } from "../api/resource.ts";
import type { KubernetesConfiguration } from "../source/kubernetes/kubernetes-source.ts";

/** The part of a configuration from which a plan is computed. */
export type PlanInput = Pick<KubernetesConfiguration, "resources" | "rejected" | "unreadable">;

/** The inputs of successive plans. */
export class PlanInputs {
  /** The last input, and the resources of the configuration for which it was returned. */
  #last: { readonly input: PlanInput; readonly from: ResourceSet } | undefined;
  /** The version from which plans are computed in place of an object, where that is another one. */
  readonly #planned = new WeakMap<Resource, Resource>();

  /**
   * Returns the input for a configuration: in place of an object that differs from the one of the last input only by its status, it
   * has that one. Returns the last input itself if nothing else differs.
   */
  next(configuration: PlanInput): PlanInput {
    const { rejected, unreadable } = configuration;
    const last = this.#last;
    const resources = this.#plannedVersions(configuration.resources);
    const isSame =
      last !== undefined &&
      kindsOf(resources).every((kind) => resources[kind] === last.input.resources[kind]) &&
      isDeepStrictEqual(rejected, last.input.rejected) &&
      isDeepStrictEqual(unreadable, last.input.unreadable);
    const input = isSame ? last.input : { resources, rejected, unreadable };
    this.#last = { input, from: configuration.resources };
    return input;
  }

  /** Returns the same list for a kind of which no version differs. */
  #plannedVersions(current: ResourceSet): ResourceSet {
    const last = this.#last;
    if (last === undefined) return current;
    const lists = kindsOf(current).map((kind) => {
      const planned = last.input.resources[kind];
      if (current[kind] === last.from[kind]) return [kind, planned];
      this.#keepVersions(differenceBetween<Resource>(last.from[kind], current[kind]));
      const versions = current[kind].map((object) => this.#plannedVersion(object));
      return [kind, hasSameItems(planned, versions) ? planned : sameList(versions)];
    });
    // Each list has the objects of its kind.
    return Object.fromEntries(lists) as ResourceSet;
  }

  /** Takes the last versions in place of new ones that differ from them only by their status. */
  #keepVersions({ removed, added }: ListChange<Resource>): void {
    const before = new Map(removed.map((object) => [objectKey(object.metadata), this.#plannedVersion(object)]));
    for (const object of added) {
      const version = before.get(objectKey(object.metadata));
      if (version !== undefined && isSameExceptStatus(version, object)) this.#planned.set(object, version);
    }
  }

  #plannedVersion(object: Resource): Resource {
    return this.#planned.get(object) ?? object;
  }
}

function kindsOf(resources: ResourceSet): readonly (keyof ResourceSet)[] {
  // The set has a list for each kind, and nothing else.
  return Object.keys(resources) as (keyof ResourceSet)[];
}

function isSameExceptStatus(a: object, b: object): boolean {
  return a === b || isDeepStrictEqual(withoutStatus(a), withoutStatus(b));
}

function withoutStatus(object: object): object {
  return { ...object, status: undefined };
}
