/**
 * Tenants cannot reach each other through the controller, whatever they write: in random clusters of three tenants, the
 * plan for one neither names nor depends on an object of another, unless a ReferenceGrant, a listener or an attached
 * object of the other permits it.
 */
import { runToEnd } from "@gatewayproxy/runtime/steps";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Resource, resourceSet } from "../api/resource.ts";
import { noCredentials } from "../translate/tls/credentials.ts";
import { clusterEnvironment } from "../translate/environment.ts";
import { gatewayScope } from "../translate/gateway/gateway-scope.ts";
import { translate } from "../translate/translate.ts";
import { controllerObjects } from "./plan.ts";
import { clusterOf, namespaceOf, tenant, tenants } from "./testing/tenant-clusters.ts";
import { madeFor, planOf, reachable, rightsOf } from "./testing/tenant-rights.ts";

function statusesOf({ statuses }: ReturnType<typeof planOf>, owner: string): unknown {
  const own = <T extends object>(list: readonly T[]) =>
    list.filter((each) => "namespace" in each && each.namespace === owner);
  const { gateways, listenerSets, httpRoutes, backendTlsPolicies, proxyPolicies, backends } = statuses;
  return [gateways, listenerSets, httpRoutes, backendTlsPolicies, proxyPolicies, backends].map((list) =>
    own<object>(list),
  );
}

/** Returns the configuration that the proxies of a tenant's Gateways serve, as JSON. */
function servedFor(objects: readonly Resource[], owner: string, before = noCredentials): string {
  const resources = resourceSet(objects);
  const environment = clusterEnvironment();
  const own = resources.Gateway.filter(({ metadata }) => metadata.namespace === owner);
  return JSON.stringify(
    own.map(({ metadata }) => {
      const { binds, backends } = translate(gatewayScope(resources, metadata), { environment, before });
      return { binds, backends };
    }),
  );
}

describe("tenants that open nothing to each other", () => {
  const closed = clusterOf({ attaches: false, grants: false });

  test("have nothing of each other in the configuration of their proxies", () => {
    fc.assert(
      fc.property(closed, tenant, (objects, owner) => {
        const served = servedFor(objects, owner);
        for (const other of tenants.filter((each) => each !== owner)) {
          expect(served).not.toContain(`.${other}.test`);
          expect(served).not.toContain(`"${other}/`);
          expect(served).not.toContain(`sk-of-${other}`);
        }
      }),
      { numRuns: 60 },
    );
  });

  test("get objects, rights and watches in their own namespace only", () => {
    fc.assert(
      fc.property(closed, tenant, (objects, owner) => {
        const plan = planOf(objects);
        const made = madeFor(plan, owner);
        expect(made.filter(({ namespace }) => namespace !== undefined && namespace !== owner)).toEqual([]);
        const others = tenants.filter((each) => each !== owner);
        const text = JSON.stringify(made);
        for (const other of others) expect(text).not.toContain(`"${other}`);
        // The controller reads the same objects for one tenant as without the others.
        const alone = runToEnd(
          controllerObjects(resourceSet(objects.filter((each) => namespaceOf(each) === owner))),
        ).named;
        const all = runToEnd(controllerObjects(resourceSet(objects))).named;
        expect(new Set(alone)).toEqual(new Set(all.filter(({ namespace }) => namespace === owner)));
      }),
      { numRuns: 60 },
    );
  });

  test("cannot see what others have or do, whether it exists or not", () => {
    fc.assert(
      fc.property(closed, tenant, (objects, owner) => {
        // In the Gateway API everyone can see that a parent does not exist or is not accepted.
        const isParent = ({ kind, metadata }: Resource) =>
          kind === "Gateway" || kind === "ListenerSet" || metadata.name === "parameters";
        const kept = objects.filter((each) => namespaceOf(each) === owner || isParent(each));
        const [together, alone] = [planOf(objects), planOf(kept)];
        expect(statusesOf(together, owner)).toEqual(statusesOf(alone, owner));
        expect(madeFor(together, owner)).toEqual(madeFor(alone, owner));
      }),
      { numRuns: 60 },
    );
  });
});

describe("tenants that open something to each other", () => {
  const open = clusterOf({ attaches: true, grants: true });

  test("get exactly the rights that grants and attachments give, and lose them with the grants", () => {
    fc.assert(
      fc.property(open, tenant, (objects, owner) => {
        expect(new Set(rightsOf(planOf(objects), owner))).toEqual(new Set(reachable(resourceSet(objects), owner)));
        const withdrawn = objects.filter(({ kind }) => kind !== "ReferenceGrant");
        expect(new Set(rightsOf(planOf(withdrawn), owner))).toEqual(new Set(reachable(resourceSet(withdrawn), owner)));
      }),
      { numRuns: 100 },
    );
  });

  test("have nothing left of what a grant gave once it is withdrawn: no status, no watch, no backend, no credential", () => {
    fc.assert(
      fc.property(open, tenant, (objects, owner) => {
        const withdrawn = objects.filter(({ kind }) => kind !== "ReferenceGrant");
        const { credentials } = planOf(objects);
        const [after, never] = [planOf(withdrawn, credentials), planOf(withdrawn)];
        expect(statusesOf(after, owner)).toEqual(statusesOf(never, owner));
        expect(madeFor(after, owner)).toEqual(madeFor(never, owner));
        expect(servedFor(withdrawn, owner, credentials)).toEqual(servedFor(withdrawn, owner));
        const watched = runToEnd(controllerObjects(resourceSet(withdrawn))).named;
        const named = runToEnd(
          controllerObjects(resourceSet(withdrawn.filter((each) => namespaceOf(each) === owner))),
        ).named;
        // Without a grant only a tenant's own objects name what is in its namespace.
        for (const each of named) expect(each.namespace).toBe(owner);
        expect(watched).toEqual(expect.arrayContaining([...named]));
      }),
      { numRuns: 60 },
    );
  });

  test("the random clusters are meaningful: many have rights across namespaces, of each kind", () => {
    // A fixed seed gives the same clusters each time.
    const clusters = fc.sample(open, { numRuns: 300, seed: 1 });
    const foreign = clusters.flatMap((objects) => {
      const plan = planOf(objects);
      return tenants.flatMap((owner) => rightsOf(plan, owner).filter((right) => !right.includes(` ${owner}/`)));
    });
    expect(foreign.length).toBeGreaterThan(50);
    for (const part of ["Secret", "ConfigMap", "key-", "client-", "ca-"]) {
      expect(foreign.filter((right) => right.includes(part)).length, part).toBeGreaterThan(2);
    }
    const servedAcross = clusters.flatMap((objects) =>
      tenants.filter((owner) => {
        const served = servedFor(objects, owner);
        return tenants.some((other) => other !== owner && served.includes(`.${other}.test`));
      }),
    );
    expect(servedAcross.length).toBeGreaterThan(5);
  }, 180_000);
});
