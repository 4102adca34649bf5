/**
 * A right is removed with the ReferenceGrant that permits it, whatever is malformed at that time: in random clusters of
 * three tenants some grants are deleted while some objects are edited to invalid versions.
 */
import fc from "fast-check";
import { expect, test } from "vitest";
import { type Resource, type ResourceSet, resourceSet } from "../api/resource.ts";
import { type CachedResource, cacheResource } from "../source/kubernetes/cached-resource.ts";
import { narrowedRole } from "./provision/roles.ts";
import { clusterOf, namespaceOf, tenants } from "./testing/tenant-clusters.ts";
import { madeFor, planOf, reachable, rightsOf } from "./testing/tenant-rights.ts";

/** A field of the wrong type, for each kind that can be malformed and still exist. */
const malformedFields: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  Gateway: { addresses: "everywhere" },
  ListenerSet: { listeners: "all" },
  HTTPRoute: { hostnames: "all" },
  ProxyPolicy: { traffic: "much" },
  BackendTLSPolicy: { validation: "none" },
  Backend: { static: "nowhere" },
};

/** Returns an object that became malformed as the controller caches it. `isCold`: it has never seen a valid version. */
function malformed(resource: Resource, isCold: boolean): readonly Resource[] {
  const fields = malformedFields[resource.kind];
  if (fields === undefined || !("spec" in resource)) return [resource];
  const before: CachedResource = { resource, rejected: undefined, unknownFields: [] };
  const { apiVersion, kind, metadata, spec } = resource;
  const object = { apiVersion, kind, metadata, spec: { ...spec, ...fields } };
  const held = cacheResource(object, isCold ? undefined : before, { keepsStatus: true });
  expect(held.rejected, kind).toBeDefined();
  return held.resource === undefined ? [] : [held.resource];
}

/** Returns the version of a Gateway that allows all routes and ListenerSets. */
function accepting(resource: Resource): Resource {
  if (resource.kind !== "Gateway") return resource;
  const all = { namespaces: { from: "All" as const } };
  const listeners = resource.spec.listeners.map((listener) => ({
    ...listener,
    allowedRoutes: { ...listener.allowedRoutes, ...all },
  }));
  return { ...resource, spec: { ...resource.spec, listeners, allowedListeners: all } };
}

/** Whether a right from `rightsOf` could be permitted to a Gateway of a tenant, whatever its spec contains. */
function couldRead(resources: ResourceSet, owner: string, right: string): boolean {
  const [, kind = "", place = ""] = right.split(" ");
  const [namespace, own] = place.split("/");
  if (namespace === owner || reachable(resources, owner).includes(right)) return true;
  return resources.ReferenceGrant.some(
    ({ metadata, spec }) =>
      metadata.namespace === namespace &&
      spec.from.some((from) => from.kind === "Gateway" && from.namespace === owner) &&
      spec.to.some((to) => to.kind === kind && (to.name === undefined || to.name === own)),
  );
}

/** Returns what the proxies of a tenant may read after a plan, in the form of `rightsOf`. */
function rightsLeft(plan: ReturnType<typeof planOf>, before: ReturnType<typeof planOf>, owner: string) {
  const unknown = madeFor(before, owner).flatMap((role) => {
    const { labels } = role.body["metadata"] as { labels: Readonly<Record<string, string>> };
    const rights = plan.provision.suspended.get(`${owner}/${labels["gateway.networking.k8s.io/gateway-name"] ?? ""}`);
    return role.kind === "Role" && rights?.kind === "unknown" ? (narrowedRole(role, rights.mayRead) ?? []) : [];
  });
  const left = { ...plan, provision: { ...plan.provision, desired: [...plan.provision.desired, ...unknown] } };
  return rightsOf(left, owner);
}

/** Returns the next value of an infinite stream. */
function nextOf<T>(stream: Iterator<T, unknown>): T {
  const step = stream.next();
  if (step.done === true) throw new Error("the stream has ended");
  return step.value;
}

test("tenants lose rights with their grants while objects are malformed, and a malformed Gateway keeps what is permitted", () => {
  // Mostly Gateways, whose rights are then unknown.
  const gatewayFates = fc.infiniteStream(fc.constantFrom("valid", "warm", "cold", "cold"));
  const fates = fc.infiniteStream(fc.constantFrom("valid", "valid", "valid", "valid", "warm", "cold"));
  const withdrawals = fc.infiniteStream(fc.constantFrom(true, false, false));
  const seen = { lost: 0, kept: 0 };
  const holds = (objects: readonly Resource[], fateOf: (each: Resource) => string, isWithdrawn: () => boolean) => {
    const left = objects.filter(({ kind }) => kind !== "ReferenceGrant" || !isWithdrawn());
    const unread = new Set<Resource>();
    const after = left.flatMap((each) => {
      const state = fateOf(each);
      if (state === "cold" && each.kind === "Gateway") unread.add(each);
      return state === "valid" ? [each] : malformed(each, state === "cold");
    });
    const others = after.filter(({ kind }) => kind !== "Gateway");
    const widest = resourceSet([...others, ...[...unread].map(accepting)]);
    const [before, now] = [planOf(objects), planOf(after)];
    for (const owner of tenants) {
      const rights = rightsLeft(now, before, owner);
      const own = [...unread].filter((each) => namespaceOf(each) === owner);
      const gateways = new Set(own.map(({ metadata }) => metadata.name));
      const isOfUnread = (right: string) => gateways.has(right.split(" ")[0] ?? "");
      // Gateways with a known version have at most the rights to what they can reach.
      const possible = new Set(reachable(resourceSet(after), owner));
      expect(rights.filter((right) => !isOfUnread(right) && !possible.has(right))).toEqual([]);
      // The others have the rights that they had and that could still be permitted.
      const had = rightsOf(before, owner).filter(isOfUnread);
      const permitted = had.filter((right) => couldRead(widest, owner, right));
      expect(new Set(rights.filter(isOfUnread))).toEqual(new Set(permitted));
      seen.lost += had.length - permitted.length;
      seen.kept += permitted.filter((right) => !right.includes(` ${owner}/`)).length;
    }
  };
  fc.assert(
    fc.property(
      clusterOf({ attaches: true, grants: true }),
      gatewayFates,
      fates,
      withdrawals,
      (objects, ofGateways, ofOthers, withdrawn) => {
        holds(
          objects,
          ({ kind }) => nextOf(kind === "Gateway" ? ofGateways : ofOthers),
          () => nextOf(withdrawn),
        );
      },
    ),
    { numRuns: 200, seed: 7 },
  );
  expect(seen.lost).toBeGreaterThan(5);
  expect(seen.kept).toBeGreaterThan(5);
}, 180_000);
