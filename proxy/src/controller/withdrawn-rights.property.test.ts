/**
 * That a right goes with the ReferenceGrant that permits it, whatever is malformed at that time: in random clusters of
 * three tenants some grants are withdrawn while some objects are edited to versions that the parser refuses.
 */
import fc from "fast-check";
import { expect, test } from "vitest";
import { type Resource, type ResourceSet, resourceSet } from "../api/resource.ts";
import { type HeldResource, holdResource } from "../source/kubernetes/held-resource.ts";
import { narrowedRole } from "./provision/roles.ts";
import { clusterOf, namespaceOf, tenants } from "./testing/tenant-clusters.ts";
import { madeFor, planOf, reachable, rightsOf } from "./testing/tenant-rights.ts";

/** A field of the wrong type, of each kind that can be malformed and still be there. */
const malformedFields: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  Gateway: { addresses: "everywhere" },
  ListenerSet: { listeners: "all" },
  HTTPRoute: { hostnames: "all" },
  ProxyPolicy: { traffic: "much" },
  BackendTLSPolicy: { validation: "none" },
  Backend: { static: "nowhere" },
};

/** What a controller makes of an object that becomes malformed; `isCold`: it has never seen a sound version. */
function malformed(resource: Resource, isCold: boolean): readonly Resource[] {
  const fields = malformedFields[resource.kind];
  if (fields === undefined || !("spec" in resource)) return [resource];
  const before: HeldResource = { resource, rejected: undefined, unknownFields: [] };
  const { apiVersion, kind, metadata, spec } = resource;
  const object = { apiVersion, kind, metadata, spec: { ...spec, ...fields } };
  const held = holdResource(object, isCold ? undefined : before, { keepsStatus: true });
  expect(held.rejected, kind).toBeDefined();
  return held.resource === undefined ? [] : [held.resource];
}

/** The version of a Gateway that takes all routes and ListenerSets. */
function accepting(resource: Resource): Resource {
  if (resource.kind !== "Gateway") return resource;
  const all = { namespaces: { from: "All" as const } };
  const listeners = resource.spec.listeners.map((listener) => ({
    ...listener,
    allowedRoutes: { ...listener.allowedRoutes, ...all },
  }));
  return { ...resource, spec: { ...resource.spec, listeners, allowedListeners: all } };
}

/** Whether a right, as `rightsOf` gives it, could be permitted to a Gateway of a tenant, whatever the Gateway says. */
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

/** What the proxies of a tenant may read after a plan, as `rightsOf` gives it. */
function rightsLeft(plan: ReturnType<typeof planOf>, before: ReturnType<typeof planOf>, owner: string) {
  const unknown = madeFor(before, owner).flatMap((role) => {
    const { labels } = role.body["metadata"] as { labels: Readonly<Record<string, string>> };
    const rights = plan.provision.frozen.get(`${owner}/${labels["gateway.networking.k8s.io/gateway-name"] ?? ""}`);
    return role.kind === "Role" && rights?.kind === "unknown" ? (narrowedRole(role, rights.mayRead) ?? []) : [];
  });
  const left = { ...plan, provision: { ...plan.provision, wanted: [...plan.provision.wanted, ...unknown] } };
  return rightsOf(left, owner);
}

/** Of a stream without end. */
function nextOf<T>(stream: Iterator<T, unknown>): T {
  const step = stream.next();
  if (step.done === true) throw new Error("the stream has ended");
  return step.value;
}

test("tenants lose rights with their grants while objects are malformed, and a malformed Gateway keeps what is permitted", () => {
  // Mostly Gateways, whose rights then are not known.
  const gatewayFates = fc.infiniteStream(fc.constantFrom("sound", "warm", "cold", "cold"));
  const fates = fc.infiniteStream(fc.constantFrom("sound", "sound", "sound", "sound", "warm", "cold"));
  const withdrawals = fc.infiniteStream(fc.constantFrom(true, false, false));
  const seen = { lost: 0, kept: 0 };
  const holds = (objects: readonly Resource[], fateOf: (each: Resource) => string, isWithdrawn: () => boolean) => {
    const left = objects.filter(({ kind }) => kind !== "ReferenceGrant" || !isWithdrawn());
    const unread = new Set<Resource>();
    const after = left.flatMap((each) => {
      const state = fateOf(each);
      if (state === "cold" && each.kind === "Gateway") unread.add(each);
      return state === "sound" ? [each] : malformed(each, state === "cold");
    });
    const others = after.filter(({ kind }) => kind !== "Gateway");
    const widest = resourceSet([...others, ...[...unread].map(accepting)]);
    const [before, now] = [planOf(objects), planOf(after)];
    for (const owner of tenants) {
      const rights = rightsLeft(now, before, owner);
      const own = [...unread].filter((each) => namespaceOf(each) === owner);
      const gateways = new Set(own.map(({ metadata }) => metadata.name));
      const isOfUnread = (right: string) => gateways.has(right.split(" ")[0] ?? "");
      // Of Gateways that are known: at most what can be reached.
      const possible = new Set(reachable(resourceSet(after), owner));
      expect(rights.filter((right) => !isOfUnread(right) && !possible.has(right))).toEqual([]);
      // Of those that are not: what they had and could still be permitted.
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
});
