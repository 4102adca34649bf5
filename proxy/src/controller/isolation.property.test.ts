/**
 * That tenants cannot reach each other through the controller, whatever they write: in random clusters of three tenants,
 * what is planned for one names nothing of another, and depends on nothing of another, unless a ReferenceGrant, a
 * listener or an attached object of the other says so.
 */
import { atOnce } from "@gatewayproxy/runtime/steps";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parseResource } from "../api/parse-resource.ts";
import { type Resource, type ResourceSet, resourceSet } from "../api/resource.ts";
import { noCredentials } from "../translate/credentials.ts";
import { clusterEnvironment } from "../translate/environment.ts";
import { gatewayScope } from "../translate/gateway-scope.ts";
import { translate } from "../translate/translate.ts";
import { controllerObjects, planFor } from "./plan.ts";
import { gatewayNamespaceLabel } from "./provision/names.ts";
import type { OwnedObject } from "./provision/owned-object.ts";
import type { ProxyDefaults } from "./provision/workload.ts";
import { proxyDefaults } from "./testing/proxy-defaults.ts";

const tenants = ["ann", "bob", "cec"] as const;

const defaults: ProxyDefaults = { ...proxyDefaults, hasNetworkPolicy: true };

const gatewayGroup = "gateway.networking.k8s.io";
const proxyGroup = "gatewayproxy.dev";

/** How much tenants open their own objects to others. */
interface Openness {
  /** Whether listeners and Gateways may take routes and ListenerSets of other namespaces. */
  readonly attaches: boolean;
  readonly grants: boolean;
}

const tenant = fc.constantFrom(...tenants);
const name = fc.constantFrom("one", "two");

type Fields = Readonly<Record<string, unknown>>;

function object(group: string, kind: string, namespace: string, own: string, rest: Fields): Resource {
  const versions: Readonly<Record<string, string>> = {
    [gatewayGroup]: `${gatewayGroup}/v1`,
    [proxyGroup]: `${proxyGroup}/v1alpha1`,
  };
  const metadata = { namespace, name: own, uid: `${kind} ${namespace}/${own}` };
  const parsed = parseResource({ apiVersion: versions[group] ?? "v1", kind, metadata, ...rest });
  if (parsed.kind !== "resource") throw new Error(JSON.stringify(parsed));
  return parsed.resource;
}

/** A reference that names another namespace more often than not. */
const certificateRef = fc.record({ kind: fc.constantFrom("Secret", "Secret", "ConfigMap"), namespace: tenant, name });
const authorityRef = fc.record({
  group: fc.constant(""),
  kind: fc.constantFrom("ConfigMap", "ConfigMap", "Secret"),
  namespace: tenant,
  name,
});
const backendRef = fc.oneof(
  fc.record({ namespace: tenant, name, port: fc.constant(80) }),
  fc.record({ group: fc.constant(proxyGroup), kind: fc.constant("Backend"), namespace: tenant, name }),
);

function gatewayIn(namespace: string, { attaches }: Openness): fc.Arbitrary<Resource> {
  const from = attaches ? fc.constantFrom("All", "Same") : fc.constant("Same");
  const listener = fc.record({ from, certificates: fc.array(certificateRef, { maxLength: 3 }) });
  const frontend = fc.option(fc.array(authorityRef, { minLength: 1, maxLength: 2 }), { nil: undefined });
  const portFrontend = fc.option(fc.array(authorityRef, { minLength: 1, maxLength: 2 }), { nil: undefined });
  return fc
    .record({
      ...{ name, listener, frontend, portFrontend, from, parameters: name },
      client: fc.option(certificateRef, { nil: undefined }),
    })
    .map(
      ({
        name: own,
        listener: { from: takes, certificates },
        frontend: authorities,
        portFrontend: portAuthorities,
        from: allows,
        client,
        parameters,
      }) => {
        const routes = { allowedRoutes: { namespaces: { from: takes } } };
        const spec = {
          gatewayClassName: "gateway-proxy",
          allowedListeners: { namespaces: { from: allows } },
          listeners: [
            { name: "http", port: 80, protocol: "HTTP", ...routes },
            ...(certificates.length > 0
              ? [{ name: "tls", port: 443, protocol: "HTTPS", tls: { certificateRefs: certificates }, ...routes }]
              : []),
          ],
          ...(parameters === "two" && {
            infrastructure: { parametersRef: { group: "", kind: "ConfigMap", name: "parameters" } },
          }),
          tls: {
            ...(client && { backend: { clientCertificateRef: client } }),
            ...((authorities ?? portAuthorities) && {
              frontend: {
                default: authorities ? { validation: { caCertificateRefs: authorities } } : {},
                ...(portAuthorities && {
                  perPort: [{ port: 443, tls: { validation: { caCertificateRefs: portAuthorities } } }],
                }),
              },
            }),
          },
        };
        return object(gatewayGroup, "Gateway", namespace, own, { spec });
      },
    );
}

/** The filters of a backend that mirrors requests. */
function mirrorTo(backend: Fields | undefined): Fields {
  if (backend === undefined) return {};
  return { filters: [{ type: "RequestMirror", requestMirror: { backendRef: backend } }] };
}

function objectsIn(namespace: string, openness: Openness): fc.Arbitrary<readonly Resource[]> {
  const parent = fc.record({ kind: fc.constantFrom("Gateway", "Gateway", "ListenerSet"), namespace: tenant, name });
  const set = fc
    .record({
      name,
      parent: tenant,
      gateway: name,
      certificates: fc.array(certificateRef, { minLength: 1, maxLength: 2 }),
    })
    .map((set) =>
      object(gatewayGroup, "ListenerSet", namespace, set.name, {
        spec: {
          parentRef: { name: set.gateway, namespace: set.parent },
          listeners: [
            {
              name: "set",
              port: 8443,
              protocol: "HTTPS",
              hostname: `${namespace}.test`,
              tls: { certificateRefs: set.certificates },
            },
          ],
        },
      }),
    );
  const route = fc
    .record({
      name,
      parents: fc.array(parent, { minLength: 1, maxLength: 3 }),
      to: fc.array(backendRef, { maxLength: 3 }),
      mirror: backendRef,
      inner: fc.option(backendRef, { nil: undefined }),
    })
    .map(({ name: own, parents, to, mirror, inner }) => {
      const refs = parents.map((ref) => ({ group: gatewayGroup, ...ref }));
      const parentRefs = [...new Map(refs.map((ref) => [JSON.stringify(ref), ref])).values()];
      const filters = [{ type: "RequestMirror", requestMirror: { backendRef: mirror } }];
      return object(gatewayGroup, "HTTPRoute", namespace, own, {
        spec: { parentRefs, rules: [{ filters, backendRefs: to.map((ref) => ({ ...ref, ...mirrorTo(inner) })) }] },
      });
    });
  const policy = fc
    .record({ name, target: fc.constantFrom("Gateway", "HTTPRoute"), of: name, service: backendRef })
    .map(({ name: own, target, of, service }) => {
      const global = {
        domain: "d",
        backendRef: service,
        descriptors: [{ entries: [{ name: "a", expression: "source.address" }] }],
      };
      return object(proxyGroup, "ProxyPolicy", namespace, own, {
        spec: { targetRefs: [{ group: gatewayGroup, kind: target, name: of }], traffic: { rateLimit: { global } } },
      });
    });
  const kind = fc.constantFrom("ai", "static", "plain");
  const backend = fc
    .record({ name, kind, secret: name, client: name, ca: name })
    .map(({ name: own, kind: of, secret, client, ca }) => {
      const tls = { clientCertificateRef: { name: `client-${client}` }, caRef: { name: `ca-${ca}` } };
      const ai = { provider: { openai: {} }, auth: { secretRef: { name: `key-${secret}` } }, tls };
      // Its host names its owner, so that what is served of it can be told.
      const fixed = { host: `host.${namespace}.test`, port: 443, ...(of === "static" && { tls }) };
      return object(proxyGroup, "Backend", namespace, own, { spec: of === "ai" ? { ai } : { static: fixed } });
    });
  const tlsPolicy = fc.record({ name, service: name, ca: name }).map(({ name: own, service, ca }) =>
    object(gatewayGroup, "BackendTLSPolicy", namespace, own, {
      spec: {
        targetRefs: [{ group: "", kind: "Service", name: service }],
        validation: { hostname: "a.test", caCertificateRefs: [{ group: "", kind: "ConfigMap", name: `ca-${ca}` }] },
      },
    }),
  );
  const service = name.map((own) =>
    object("", "Service", namespace, own, { spec: { type: "ClusterIP", ports: [{ port: 80, protocol: "TCP" }] } }),
  );
  const held = fc.constantFrom("Secret", "ConfigMap").chain((kind) =>
    fc.constantFrom("one", "two", "key-one", "ca-one", "parameters").map((own) => {
      const data = kind === "Secret" ? { apiKey: btoa(`sk-of-${namespace}`) } : { deployment: "spec: {replicas: 3}" };
      return object("", kind, namespace, own, { data });
    }),
  );
  const from = fc.record({
    kind: fc.constantFrom("HTTPRoute", "Gateway", "ListenerSet", "ProxyPolicy"),
    namespace: tenant,
  });
  const to = fc.record({
    kind: fc.constantFrom("Backend", "Service", "Secret", "ConfigMap"),
    only: fc.option(name, { nil: undefined }),
  });
  const grant = fc
    .record({
      name,
      from: fc.array(from, { minLength: 1, maxLength: 2 }),
      to: fc.array(to, { minLength: 1, maxLength: 2 }),
    })
    .map(({ name: own, from: referrers, to: referents }) => {
      const groupOf = (kind: string) =>
        kind === "ProxyPolicy" || kind === "Backend"
          ? proxyGroup
          : kind === "HTTPRoute" || kind === "Gateway" || kind === "ListenerSet"
            ? gatewayGroup
            : "";
      return object(gatewayGroup, "ReferenceGrant", namespace, own, {
        spec: {
          from: referrers.map((each) => ({ group: groupOf(each.kind), ...each })),
          to: referents.map(({ kind, only }) => ({
            group: groupOf(kind),
            kind,
            ...(only !== undefined && { name: only }),
          })),
        },
      });
    });
  const some = <T>(each: fc.Arbitrary<T>, maxLength: number) => fc.array(each, { maxLength });
  return fc
    .tuple(
      ...[some(gatewayIn(namespace, openness), 2), some(set, 1), some(route, 2), some(policy, 2), some(backend, 2)],
      ...[some(tlsPolicy, 2), some(service, 2), some(held, 4), some(grant, openness.grants ? 2 : 0)],
    )
    .map((lists) => lists.flat());
}

function clusterOf(openness: Openness): fc.Arbitrary<readonly Resource[]> {
  return fc.tuple(...tenants.map((each) => objectsIn(each, openness))).map((lists) => {
    const byKey = new Map(
      lists.flat().map((each) => [`${each.kind} ${namespaceOf(each)}/${each.metadata.name}`, each]),
    );
    return [...byKey.values()];
  });
}

function namespaceOf({ metadata }: Resource): string {
  return "namespace" in metadata ? metadata.namespace : "";
}

function planOf(objects: readonly Resource[], before = noCredentials) {
  const resources = resourceSet(objects);
  return atOnce(planFor({ resources, rejected: [], unreadable: new Set() }, defaults, before));
}

/** All objects that would be made for the Gateways of a tenant, also those of Gateways that are not served now. */
function madeFor(plan: ReturnType<typeof planOf>, owner: string): readonly OwnedObject[] {
  const frozen = [...plan.provision.frozen.values()].flatMap((rights) => (rights.kind === "known" ? rights.roles : []));
  return [...plan.provision.wanted, ...frozen].filter(({ body }) => {
    const { labels } = body["metadata"] as { labels: Readonly<Record<string, string>> };
    return labels[gatewayNamespaceLabel] === owner;
  });
}

/** What the Gateways of a tenant may read, as `gateway Kind namespace/name`. */
function rightsOf(plan: ReturnType<typeof planOf>, owner: string): readonly string[] {
  const roles = madeFor(plan, owner).filter(({ kind }) => kind === "Role");
  return roles.flatMap(({ namespace, body }) => {
    const { labels } = body["metadata"] as { labels: Readonly<Record<string, string>> };
    const rules = body["rules"] as readonly { resources: readonly string[]; resourceNames: readonly string[] }[];
    return rules.flatMap(({ resources: [resource], resourceNames }) =>
      resourceNames.map((each) => {
        const kind = resource === "secrets" ? "Secret" : "ConfigMap";
        return `${labels["gateway.networking.k8s.io/gateway-name"] ?? ""} ${kind} ${namespace ?? ""}/${each}`;
      }),
    );
  });
}

function statusesOf({ statuses }: ReturnType<typeof planOf>, owner: string): unknown {
  const own = <T extends object>(list: readonly T[]) =>
    list.filter((each) => "namespace" in each && each.namespace === owner);
  const { gateways, listenerSets, httpRoutes, backendTlsPolicies, proxyPolicies, backends } = statuses;
  return [gateways, listenerSets, httpRoutes, backendTlsPolicies, proxyPolicies, backends].map((list) =>
    own<object>(list),
  );
}

/** What the proxies of a tenant's Gateways serve, as JSON. */
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

  test("have nothing of each other in what their proxies serve", () => {
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
        // The controller reads for one tenant what it reads without the others.
        const alone = atOnce(controllerObjects(resourceSet(objects.filter((each) => namespaceOf(each) === owner))));
        const all = atOnce(controllerObjects(resourceSet(objects)));
        expect(new Set(alone)).toEqual(new Set(all.filter(({ namespace }) => namespace === owner)));
      }),
      { numRuns: 60 },
    );
  });

  test("see nothing of what others have or do, be it there or not", () => {
    fc.assert(
      fc.property(closed, tenant, (objects, owner) => {
        // That a parent does not exist or is not accepted is for everybody to see, says the Gateway API.
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

/** What rights there must be, the slow way: every way by which an object may be reached from a Gateway. */
function reachable(resources: ResourceSet, owner: string): readonly string[] {
  const granted = (from: string, kind: string, to: { kind: string; namespace: string; name: string }) =>
    from === to.namespace ||
    resources.ReferenceGrant.some(
      ({ metadata, spec }) =>
        metadata.namespace === to.namespace &&
        spec.from.some((each) => each.kind === kind && each.namespace === from) &&
        spec.to.some((each) => each.kind === to.kind && (each.name ?? to.name) === to.name),
    );
  return resources.Gateway.filter(({ metadata }) => metadata.namespace === owner).flatMap((gateway) => {
    const found = new Set<string>();
    const reach = (
      from: string,
      kind: string,
      ref: { kind: string; namespace?: string | undefined; name: string },
      accepted: string,
    ) => {
      const to = { kind: ref.kind, namespace: ref.namespace ?? from, name: ref.name };
      if (ref.kind === accepted && granted(from, kind, to)) found.add(`${to.kind} ${to.namespace}/${to.name}`);
    };
    const takes = (policy: string | undefined, namespace: string) =>
      policy === "All" || (policy === "Same" && namespace === owner);
    const { tls, listeners, allowedListeners } = gateway.spec;
    const certificates = listeners.flatMap((each) => each.tls?.certificateRefs ?? []);
    for (const ref of certificates) reach(owner, "Gateway", ref, "Secret");
    if (tls?.backend?.clientCertificateRef) reach(owner, "Gateway", tls.backend.clientCertificateRef, "Secret");
    const validations = [tls?.frontend?.default, ...(tls?.frontend?.perPort ?? []).map((each) => each.tls)];
    for (const ref of validations.flatMap((each) => each?.validation?.caCertificateRefs ?? []))
      reach(owner, "Gateway", ref, "ConfigMap");

    const sets = resources.ListenerSet.filter(
      ({ metadata, spec }) =>
        spec.parentRef.namespace === owner &&
        spec.parentRef.name === gateway.metadata.name &&
        takes(allowedListeners?.namespaces?.from, metadata.namespace),
    );
    for (const { metadata, spec } of sets) {
      for (const ref of spec.listeners[0]?.tls?.certificateRefs ?? [])
        reach(metadata.namespace, "ListenerSet", ref, "Secret");
    }
    const routes = resources.HTTPRoute.filter(({ metadata, spec }) =>
      spec.parentRefs.some(({ kind, namespace, name: parent }) =>
        kind === "Gateway"
          ? namespace === owner &&
            parent === gateway.metadata.name &&
            takes(listeners[0]?.allowedRoutes.namespaces.from, metadata.namespace)
          : sets.some(
              (set) =>
                set.metadata.namespace === namespace &&
                set.metadata.name === parent &&
                metadata.namespace === namespace,
            ),
      ),
    );
    const follow = (
      from: string,
      kind: string,
      ref: { kind: string; namespace?: string | undefined; name: string },
    ) => {
      const to = { kind: ref.kind, namespace: ref.namespace ?? from, name: ref.name };
      if (!granted(from, kind, to)) return;
      const isTo = ({ metadata }: { metadata: { namespace: string; name: string } }) =>
        metadata.namespace === to.namespace && metadata.name === to.name;
      for (const { spec } of to.kind === "Backend" ? resources.Backend.filter(isTo) : []) {
        const named = [spec.ai?.tls, spec.static?.tls].flatMap((each) => [each?.clientCertificateRef, each?.caRef]);
        for (const each of [spec.ai?.auth?.secretRef, ...named]) {
          if (each) found.add(`Secret ${to.namespace}/${each.name}`);
        }
      }
      for (const { metadata, spec } of to.kind === "Service" ? resources.BackendTLSPolicy : []) {
        if (metadata.namespace !== to.namespace || spec.targetRefs[0]?.name !== to.name) continue;
        for (const each of spec.validation?.caCertificateRefs ?? [])
          found.add(`ConfigMap ${to.namespace}/${each.name}`);
      }
    };
    for (const { metadata, spec } of routes) {
      for (const { backendRefs, filters } of spec.rules) {
        for (const ref of backendRefs) follow(metadata.namespace, "HTTPRoute", ref);
        for (const each of [...filters, ...backendRefs.flatMap((ref) => ref.filters)])
          if (each.type === "RequestMirror") follow(metadata.namespace, "HTTPRoute", each.requestMirror.backendRef);
      }
    }
    for (const { metadata, spec } of resources.ProxyPolicy) {
      const { kind, name: target } = spec.targetRefs[0] ?? { kind: "", name: "" };
      const isOn =
        kind === "Gateway"
          ? metadata.namespace === owner && target === gateway.metadata.name
          : routes.some((route) => route.metadata.namespace === metadata.namespace && route.metadata.name === target);
      const ref = spec.traffic.rateLimit.global?.backendRef;
      if (isOn && ref) follow(metadata.namespace, "ProxyPolicy", ref);
    }
    return [...found].map((each) => `${gateway.metadata.name} ${each}`);
  });
}

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
        const watched = atOnce(controllerObjects(resourceSet(withdrawn)));
        const named = atOnce(controllerObjects(resourceSet(withdrawn.filter((each) => namespaceOf(each) === owner))));
        // Without a grant only a tenant's own objects name what is in its namespace.
        for (const each of named) expect(each.namespace).toBe(owner);
        expect(watched).toEqual(expect.arrayContaining([...named]));
      }),
      { numRuns: 60 },
    );
  });

  test("the random clusters say something: many have rights across namespaces, by each way", () => {
    // The same clusters each time: chance must not decide.
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
  });
});
