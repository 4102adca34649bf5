/** Random clusters of three tenants, whose objects refer to each other. */
import { streamRouteKinds } from "@gatewayproxy/runtime/route-key";
import fc from "fast-check";
import { parseResource } from "../../api/parse-resource.ts";
import type { Resource } from "../../api/resource.ts";

export const tenants = ["ann", "bob", "cec"] as const;

const gatewayGroup = "gateway.networking.k8s.io";
const proxyGroup = "gatewayproxy.dev";

/** Which of their objects tenants open to others. */
export interface Openness {
  /** Whether listeners and Gateways may allow routes and ListenerSets of other namespaces. */
  readonly attaches: boolean;
  readonly grants: boolean;
}

export const tenant = fc.constantFrom(...tenants);
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
            { name: "tcp", port: 5432, protocol: "TCP", ...routes },
            { name: "udp", port: 53, protocol: "UDP", ...routes },
            { name: "pass", port: 8443, protocol: "TLS", tls: { mode: "Passthrough" }, ...routes },
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
  const streamRoute = fc
    .record({
      kind: fc.constantFrom(...streamRouteKinds),
      name,
      parents: fc.array(parent, { minLength: 1, maxLength: 3 }),
      to: fc.array(backendRef, { minLength: 1, maxLength: 3 }),
    })
    .map(({ kind, name: own, parents, to }) => {
      const refs = parents.map((ref) => ({ group: gatewayGroup, ...ref }));
      const parentRefs = [...new Map(refs.map((ref) => [JSON.stringify(ref), ref])).values()];
      const hostnames = kind === "TLSRoute" ? { hostnames: ["a.test"] } : {};
      return object(gatewayGroup, kind, namespace, own, {
        spec: { parentRefs, ...hostnames, rules: [{ backendRefs: to }] },
      });
    });
  const policy = fc
    .record({ name, target: fc.constantFrom("Gateway", "HTTPRoute", "TCPRoute"), of: name, service: backendRef })
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
  const kind = fc.constantFrom("ai", "static", "plain", "providers");
  const backend = fc
    .record({ name, kind, secret: name, client: name, ca: name })
    .map(({ name: own, kind: of, secret, client, ca }) => {
      const tls = { clientCertificateRef: { name: `client-${client}` }, caRef: { name: `ca-${ca}` } };
      const ai = { provider: { openai: {} }, auth: { secretRef: { name: `key-${secret}` } }, tls };
      // Its host name contains its owner, so that a test can find its owner in a configuration.
      const fixed = { host: `host.${namespace}.test`, port: 443, ...(of === "static" && { tls }) };
      const several = { providers: [...new Set([secret, client])].map((each) => ({ backendRef: { name: each } })) };
      const spec = of === "providers" ? { ai: several } : of === "ai" ? { ai } : { static: fixed };
      return object(proxyGroup, "Backend", namespace, own, { spec });
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
    kind: fc.constantFrom("HTTPRoute", "Gateway", "ListenerSet", "ProxyPolicy", ...streamRouteKinds),
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
          : kind.endsWith("Route") || kind === "Gateway" || kind === "ListenerSet"
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
      ...[
        some(gatewayIn(namespace, openness), 2),
        some(set, 1),
        some(route, 2),
        some(streamRoute, 2),
        some(policy, 2),
        some(backend, 3),
      ],
      ...[some(tlsPolicy, 2), some(service, 2), some(held, 4), some(grant, openness.grants ? 2 : 0)],
    )
    .map((lists) => lists.flat());
}

export function clusterOf(openness: Openness): fc.Arbitrary<readonly Resource[]> {
  return fc.tuple(...tenants.map((each) => objectsIn(each, openness))).map((lists) => {
    const byKey = new Map(
      lists.flat().map((each) => [`${each.kind} ${namespaceOf(each)}/${each.metadata.name}`, each]),
    );
    return [...byKey.values()];
  });
}

export function namespaceOf({ metadata }: Resource): string {
  return "namespace" in metadata ? metadata.namespace : "";
}
