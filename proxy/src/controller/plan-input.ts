/**
 * The objects from which a plan is computed. Most changes that a controller sees are statuses that it has written itself. A plan
 * does not depend on them, and what is computed of an object is kept as long as it is the same object (ADR 61). Pure.
 */
import { isDeepStrictEqual } from "node:util";
import { hasSameItems, sameList } from "@gatewayproxy/runtime/memoised";
import { objectKey } from "@gatewayproxy/runtime/object-key";
import type { Resource, ResourceSet } from "../api/resource.ts";
import type { KubernetesConfiguration } from "../source/kubernetes/kubernetes-source.ts";

/** The part of a configuration from which a plan is computed. */
export type PlanInput = Pick<KubernetesConfiguration, "resources" | "rejected" | "unreadable">;

/** The inputs of successive plans. */
export class PlanInputs {
  #last: PlanInput | undefined;
  /** The version that stands for each one that the last configuration had. */
  readonly #planned = new WeakMap<Resource, Resource>();

  /**
   * Returns the input for a configuration: in place of an object that differs from the one of the last input only by its status, it
   * has that one. Returns the last input itself if nothing else differs.
   */
  next(configuration: PlanInput): PlanInput {
    const { rejected, unreadable } = configuration;
    const last = this.#last;
    const resources = this.#plannedVersions(configuration.resources, last?.resources);
    if (
      last === undefined ||
      kindsOf(resources).some((kind) => resources[kind] !== last.resources[kind]) ||
      !isDeepStrictEqual(rejected, last.rejected) ||
      !isDeepStrictEqual(unreadable, last.unreadable)
    ) {
      this.#last = { resources, rejected, unreadable };
      return this.#last;
    }
    return last;
  }

  #plannedVersions(current: ResourceSet, last: ResourceSet | undefined): ResourceSet {
    const lists = kindsOf(current).map((kind) => {
      let byKey: ReadonlyMap<string, Resource> | undefined;
      const find = (key: string): Resource | undefined => {
        byKey ??= new Map((last?.[kind] ?? []).map((each) => [objectKey(each.metadata), each]));
        return byKey.get(key);
      };
      const versions = current[kind].map((object: Resource) => this.#plannedVersion(object, find));
      const isSame = last !== undefined && hasSameItems(last[kind], versions);
      return [kind, isSame ? last[kind] : sameList(versions)];
    });
    // Each list has the objects of its kind.
    return Object.fromEntries(lists) as ResourceSet;
  }

  #plannedVersion(object: Resource, find: (key: string) => Resource | undefined): Resource {
    const known = this.#planned.get(object);
    if (known !== undefined) return known;
    const before = find(objectKey(object.metadata));
    const version = before !== undefined && isSameExceptStatus(before, object) ? before : object;
    this.#planned.set(object, version);
    return version;
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
