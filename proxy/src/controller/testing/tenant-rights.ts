/** Reads what the controller plans for a tenant in a cluster of `tenant-clusters.ts`, and computes what it may plan. */
import { isStreamRouteKind } from "@gatewayproxy/runtime/route-key";
import { runToEnd } from "@gatewayproxy/runtime/steps";
import { type Resource, type ResourceSet, resourceSet, routesOf } from "../../api/resource.ts";
import { noCredentials } from "../../translate/tls/credentials.ts";
import { planFor } from "../plan.ts";
import { gatewayNamespaceLabel } from "../provision/names.ts";
import type { OwnedObject } from "../provision/owned-object.ts";
import type { ProxyDefaults } from "../provision/workload.ts";
import { proxyDefaults } from "./proxy-defaults.ts";

const defaults: ProxyDefaults = { ...proxyDefaults, hasNetworkPolicy: true };

export function planOf(objects: readonly Resource[], before = noCredentials) {
  const resources = resourceSet(objects);
  return runToEnd(planFor({ resources, rejected: [], unreadable: new Set(), crowded: new Set() }, defaults, before));
}

/** Returns the desired objects of a tenant's Gateways, including roles of Gateways that are not served now. */
export function madeFor(plan: ReturnType<typeof planOf>, owner: string): readonly OwnedObject[] {
  const suspended = [...plan.provision.suspended.values()].flatMap((rights) =>
    rights.kind === "known" ? rights.roles : [],
  );
  return [...plan.provision.desired, ...suspended].filter(({ body }) => {
    const { labels } = body["metadata"] as { labels: Readonly<Record<string, string>> };
    return labels[gatewayNamespaceLabel] === owner;
  });
}

/** Returns what the Gateways of a tenant may read, as `gateway Kind namespace/name`. */
export function rightsOf(plan: ReturnType<typeof planOf>, owner: string): readonly string[] {
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

/** Computes the expected rights by a slow and simple method: each path of references from a Gateway to an object. */
export function reachable(resources: ResourceSet, owner: string): readonly string[] {
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
    for (const ref of validations.flatMap((each) => each?.validation?.caCertificateRefs ?? [])) {
      reach(owner, "Gateway", ref, "ConfigMap");
    }

    const sets = resources.ListenerSet.filter(
      ({ metadata, spec }) =>
        spec.parentRef.namespace === owner &&
        spec.parentRef.name === gateway.metadata.name &&
        takes(allowedListeners?.namespaces?.from, metadata.namespace),
    );
    for (const { metadata, spec } of sets) {
      for (const ref of spec.listeners[0]?.tls?.certificateRefs ?? []) {
        reach(metadata.namespace, "ListenerSet", ref, "Secret");
      }
    }
    const routes = routesOf(resources).filter(({ kind: routeKind, metadata, spec }) =>
      spec.parentRefs.some(({ kind, namespace, name: parent }) =>
        kind === "Gateway"
          ? namespace === owner &&
            parent === gateway.metadata.name &&
            takes(listeners[0]?.allowedRoutes.namespaces.from, metadata.namespace)
          : sets.some(
              (set) =>
                set.metadata.namespace === namespace &&
                set.metadata.name === parent &&
                // The listeners of a ListenerSet are of HTTPS, or unknown.
                (set.spec.listeners.length === 0 ||
                  (metadata.namespace === namespace && !isStreamRouteKind(routeKind))),
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
      const backends = to.kind === "Backend" ? resources.Backend.filter(isTo) : [];
      const providers = backends.flatMap(({ spec }) =>
        (spec.ai?.providers ?? []).flatMap(({ backendRef: { name } }) =>
          resources.Backend.filter(({ metadata }) => metadata.namespace === to.namespace && metadata.name === name),
        ),
      );
      for (const { spec } of [...backends, ...providers]) {
        const named = [spec.ai?.tls, spec.static?.tls].flatMap((each) => [each?.clientCertificateRef, each?.caRef]);
        for (const each of [spec.ai?.auth?.secretRef, ...named]) {
          if (each) found.add(`Secret ${to.namespace}/${each.name}`);
        }
      }
      for (const { metadata, spec } of to.kind === "Service" ? resources.BackendTLSPolicy : []) {
        if (metadata.namespace !== to.namespace || spec.targetRefs[0]?.name !== to.name) continue;
        for (const each of spec.validation?.caCertificateRefs ?? []) {
          found.add(`ConfigMap ${to.namespace}/${each.name}`);
        }
      }
    };
    for (const { kind, metadata, spec } of routes) {
      for (const { backendRefs } of spec.rules) for (const ref of backendRefs) follow(metadata.namespace, kind, ref);
      if (kind !== "HTTPRoute") continue;
      for (const { backendRefs, filters } of spec.rules) {
        for (const each of [...filters, ...backendRefs.flatMap((ref) => ref.filters)]) {
          if (each.type === "RequestMirror") follow(metadata.namespace, kind, each.requestMirror.backendRef);
        }
      }
    }
    for (const { metadata, spec } of resources.ProxyPolicy) {
      const { kind, name: target } = spec.targetRefs[0] ?? { kind: "", name: "" };
      const isOn =
        kind === "Gateway"
          ? metadata.namespace === owner && target === gateway.metadata.name
          : routes.some(
              (route) =>
                route.kind === kind &&
                route.metadata.namespace === metadata.namespace &&
                route.metadata.name === target,
            );
      const ref = spec.traffic.rateLimit.global?.backendRef;
      if (isOn && ref) follow(metadata.namespace, "ProxyPolicy", ref);
    }
    return [...found].map((each) => `${gateway.metadata.name} ${each}`);
  });
}
