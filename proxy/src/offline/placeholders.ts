/** Placeholders for missing Gateways and routes of policies: the minimum to which they can attach. */
import { objectKey } from "@gatewayproxy/runtime/object-key";
import { isStreamRouteKind, routeKey, routeKind, routeName } from "@gatewayproxy/runtime/route-key";
import type { ManifestFile } from "../api/parse-manifests.ts";
import { type ResourceSet, routesOf } from "../api/resource.ts";
import { gatewayClassName } from "../api/names.ts";

/** What served a request, by keys of the access log; absent if unknown. */
export interface ServedBy {
  /** `namespace/gateway/listener` */
  readonly listener?: string | undefined;
  /** `namespace/route/0`, or the rule's name in place of the number. */
  readonly rule?: string | undefined;
}

/** Missing objects: Gateways by `namespace/name`, routes by key. */
interface Missing {
  /** Names of listeners. */
  readonly gateways: Map<string, Set<string>>;
  readonly routes: Map<string, { readonly parents: Set<string>; readonly rules: Set<string> }>;
}

/** The parent of a route whose parents are unknown. */
const anyGateway = "default/placeholder";

/** Returns manifests of objects that the requests and policies name and `resources` lacks. */
export function placeholders(resources: ResourceSet, served: Iterable<ServedBy>): readonly ManifestFile[] {
  const missing: Missing = { gateways: new Map(), routes: new Map() };
  const known = {
    gateways: new Set(resources.Gateway.map(fullName)),
    routes: new Set(routesOf(resources).map(({ kind, metadata }) => routeKey(kind, metadata))),
  };
  for (const { listener, rule } of served) {
    if (listener === undefined || rule === undefined) continue;
    const [gateway, listenerName] = splitLast(listener);
    const [route, ruleName] = splitLast(rule);
    if (!known.gateways.has(gateway)) addTo(missing.gateways, gateway, listenerName);
    if (known.routes.has(route)) continue;
    const routeOf = ensureRoute(missing, route);
    routeOf.parents.add(gateway);
    routeOf.rules.add(ruleName);
  }
  for (const target of targetsOf(resources)) {
    if (target.kind === "Gateway" && !known.gateways.has(target.name)) {
      addTo(missing.gateways, target.name, target.section ?? "http");
    }
    if (target.kind === "Gateway") continue;
    const route = target.kind === "HTTPRoute" ? target.name : `${target.kind}/${target.name}`;
    // Streams have no requests to which a limit could be applied offline.
    if (isStreamRouteKind(target.kind) || known.routes.has(route)) continue;
    ensureRoute(missing, route).rules.add(target.section ?? "0");
  }
  const fallback = [...known.gateways, ...missing.gateways.keys()][0] ?? anyGateway;
  for (const { parents } of missing.routes.values()) if (parents.size === 0) parents.add(fallback);
  const isNeeded = [...missing.routes.values()].some(({ parents }) => parents.has(anyGateway));
  if (isNeeded) addTo(missing.gateways, anyGateway, "http");
  return [...Array.from(missing.gateways, gatewayManifest), ...Array.from(missing.routes, routeManifest)];
}

function targetsOf(resources: ResourceSet) {
  return resources.ProxyPolicy.flatMap(({ metadata, spec }) =>
    spec.targetRefs.map(({ kind, name, sectionName }) => ({
      kind,
      name: `${metadata.namespace}/${name}`,
      section: sectionName,
    })),
  );
}

function fullName({ metadata }: { readonly metadata: { readonly namespace: string; readonly name: string } }): string {
  return objectKey(metadata);
}

function splitLast(key: string): readonly [string, string] {
  const at = key.lastIndexOf("/");
  return [key.slice(0, at), key.slice(at + 1)];
}

function addTo(sets: Map<string, Set<string>>, key: string, value: string): void {
  const set = sets.get(key);
  if (set === undefined) sets.set(key, new Set([value]));
  else set.add(value);
}

function ensureRoute({ routes }: Missing, name: string) {
  const known = routes.get(name);
  if (known !== undefined) return known;
  const made = { parents: new Set<string>(), rules: new Set<string>() };
  routes.set(name, made);
  return made;
}

function gatewayManifest([name, listeners]: readonly [string, ReadonlySet<string>]): ManifestFile {
  return manifest("Gateway", name, {
    gatewayClassName,
    listeners: Array.from(listeners, (listener, at) => ({
      name: listener,
      protocol: "HTTP",
      port: 80 + at,
      allowedRoutes: { namespaces: { from: "All" } },
    })),
  });
}

/** A rule that is named by its number needs those before it. */
function routeManifest([key, { parents, rules }]: readonly [
  string,
  NonNullable<ReturnType<Missing["routes"]["get"]>>,
]) {
  const names = [...rules].filter((rule) => !/^\d+$/.test(rule));
  const numbers = [...rules].filter((rule) => /^\d+$/.test(rule)).map(Number);
  const unnamed = numbers.length === 0 ? 0 : Math.max(...numbers) + 1;
  return manifest(routeKind(key), routeName(key), {
    parentRefs: Array.from(parents, (parent) => {
      const [namespace, gateway] = splitLast(parent);
      return { namespace, name: gateway };
    }),
    rules: [...Array.from({ length: unnamed }, () => ({})), ...names.map((rule) => ({ name: rule }))],
  });
}

function manifest(kind: string, fullname: string, spec: object): ManifestFile {
  const [namespace, name] = splitLast(fullname);
  const apiVersion = "gateway.networking.k8s.io/v1";
  const text = JSON.stringify({ apiVersion, kind, metadata: { namespace, name }, spec });
  return { path: `placeholder for ${kind} ${fullname}`, text };
}
