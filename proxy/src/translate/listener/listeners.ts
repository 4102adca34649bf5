/**
 * Resolves listeners: their protocols, the kinds of routes that may attach, their TLS, and conflicts between them
 * (`listener-conflicts.ts`). Gateways may share a port, so conflicts are also found between Gateways.
 */
import { type RouteKind as AnyRouteKind, requestRouteKinds } from "@gatewayproxy/runtime/route-key";
import type { Steps } from "@gatewayproxy/runtime/steps";
import type { Gateway } from "../../api/gateway.ts";
import type { FieldPath } from "../../api/issue.ts";
import type { Listener } from "../../api/listener.ts";
import type { ListenerSet } from "../../api/listener-set.ts";
import { gatewayGroup } from "../../api/names.ts";
import type { ConflictReason, ListenerRejection } from "../../api/status.ts";
import type { ListenerTls } from "../../ir/snapshot.ts";
import { eachObjectInSteps } from "../each-object.ts";
import type { TranslationContext } from "../context.ts";
import type { Finding, Found } from "../status/finding.ts";
import type { FindingOf } from "../status/findings-table.ts";
import { type Claim, findConflicts, findOverlaps } from "./listener-conflicts.ts";
import { type ResolvedTls, resolveListenerTls } from "../tls/listener-tls.ts";
import type { ListenerOwner } from "../reference/owner-references.ts";
import { nameKey } from "../index/object-names.ts";

/** A listener of a Gateway of this controller. */
export interface ListenerState {
  readonly gateway: Gateway;
  /** The Gateway, or the ListenerSet that is attached to it. */
  readonly owner: ListenerOwner;
  readonly listener: Listener;
  /** `namespace/gateway/listener`, or for a ListenerSet `namespace/gateway/set namespace/set/listener`. */
  readonly key: string;
  readonly path: FieldPath;
  readonly supportedKinds: readonly RouteKind[];
  /** Present if it is served and the gateway ends its TLS. */
  readonly tls: ListenerTls | undefined;
  /** If a reference could not be resolved, it serves with the others if it can. */
  readonly findings: readonly FindingOf<"Listener">[];
  /** Whether another TLS listener of the port has some of its hosts. */
  readonly isOverlapping: boolean;
  /** Whether it is accepted and has its certificates, or their last valid versions. */
  readonly isServable: boolean;
  /** Whether it is in the snapshot: it is servable, and its Gateway has an address. */
  readonly isProgrammed: boolean;
}

/** A kind of routes (Gateway API `RouteGroupKind`). */
export interface RouteKind {
  readonly group: string;
  readonly kind: string;
}

const routeKind = (kind: AnyRouteKind): RouteKind => ({ group: gatewayGroup, kind });
const requestRoutes = requestRouteKinds.map(routeKind);

/** The supported protocols, and the kinds of routes of each. */
const supportedProtocols: Readonly<Record<string, readonly RouteKind[]>> = {
  HTTP: requestRoutes,
  HTTPS: requestRoutes,
  TLS: [routeKind("TLSRoute")],
  TCP: [routeKind("TCPRoute")],
  UDP: [routeKind("UDPRoute")],
};

/** A TCPRoute gets the connections of a TLS listener that no TLSRoute gets, as plain text. */
const terminatedRoutes = [routeKind("TLSRoute"), routeKind("TCPRoute")];

/** Whether the gateway ends the TLS of a listener. */
export function endsTls({ protocol, tls }: Listener): boolean {
  return protocol === "HTTPS" || (protocol === "TLS" && tls?.mode !== "Passthrough");
}

/** Returns the kinds of routes that a listener can have. */
function servedKinds(listener: Listener): readonly RouteKind[] {
  const { protocol } = listener;
  if (protocol === "TLS" && endsTls(listener)) return terminatedRoutes;
  return Object.hasOwn(supportedProtocols, protocol) ? (supportedProtocols[protocol] ?? []) : [];
}

/** A Gateway with the addresses of its listeners. */
export interface ListenerHost {
  readonly gateway: Gateway;
  /** Undefined is the listen address of the process; empty if the Gateway is rejected. */
  readonly addresses: readonly (string | undefined)[];
  /** Hosts of different places share no port. */
  readonly place: string;
  /** The attached ListenerSets, with their rank: the lower one has precedence. */
  readonly sets: readonly { readonly set: ListenerSet; readonly rank: number }[];
}

/** Resolves the listeners of all Gateways. Returns them by their keys. */
export function* resolveListeners(
  context: TranslationContext,
  hosts: readonly ListenerHost[],
): Steps<ReadonlyMap<string, ListenerState>> {
  const { reservedPorts = new Map<number, string>() } = context.environment;
  const claims = yield* claimsOf(hosts);
  const conflicts = yield* findConflicts(claims);
  const overlaps = yield* findOverlaps(claims);
  const ownerOf = ({ owner }: OwnedClaim) => owner;
  const states = yield* eachObjectInSteps(claims, ownerOf, function* (claim): Steps<[string, ListenerState]> {
    const { key, gateway, owner, listener, path, addresses } = claim;
    const isTls = endsTls(listener);
    const tls = isTls ? yield* resolveListenerTls(context, gateway, owner, listener, path) : plain;
    const kinds = allowedKinds(listener, path);
    const rejections = [...reservedPort(claim, reservedPorts), ...rejectionsOf(claim, conflicts.get(key))];
    const isServable = rejections.length === 0 && (tls.value !== undefined || !isTls);
    const state: ListenerState = {
      gateway,
      owner,
      listener,
      key,
      path,
      supportedKinds: kinds.value,
      tls: tls.value,
      findings: [...rejections, ...tls.findings, ...kinds.findings],
      isOverlapping: overlaps.has(key),
      isServable,
      isProgrammed: isServable && addresses.length > 0,
    };
    return [key, state];
  });
  return new Map(states);
}

const plain: ResolvedTls = { value: undefined, findings: [] };

/** Returns the unique key of a listener. */
export function listenerKey(gateway: Gateway, owner: ListenerOwner, name: string): string {
  const set = owner === gateway ? "" : `${nameKey(owner)}/`;
  return `${nameKey(gateway)}/${set}${name}`;
}

interface OwnedClaim extends Claim {
  readonly gateway: Gateway;
  readonly owner: ListenerOwner;
  readonly path: FieldPath;
}

/** Returns the claims of all listeners. A step for each owner. */
function* claimsOf(hosts: readonly ListenerHost[]): Steps<readonly OwnedClaim[]> {
  const claims: OwnedClaim[] = [];
  for (const { gateway, addresses, place, sets } of hosts) {
    for (const { owner, rank } of [
      { owner: gateway, rank: 0 },
      ...sets.map(({ set, rank }) => ({ owner: set, rank })),
    ]) {
      const { namespace } = owner.metadata;
      for (const [index, listener] of owner.spec.listeners.entries()) {
        const key = listenerKey(gateway, owner, listener.name);
        const path = ["spec", "listeners", index];
        claims.push({ key, gateway, owner, listener, addresses, place, namespace, rank, path });
      }
      yield;
    }
  }
  return claims;
}

function rejectionsOf(
  { listener, path }: OwnedClaim,
  conflict: Finding<ConflictReason> | undefined,
): readonly Finding<ListenerRejection>[] {
  const rejections: Finding<ListenerRejection>[] = conflict === undefined ? [] : [{ ...conflict, path }];
  if (Object.hasOwn(supportedProtocols, listener.protocol)) return rejections;
  const accepted = Object.keys(supportedProtocols).join(", ");
  const message = `protocol ${listener.protocol} is not supported, accepted is ${accepted}`;
  return [...rejections, { reason: "UnsupportedProtocol", message, path: [...path, "protocol"] }];
}

/** A listener at a port of the proxy itself would publish what is served there. */
function reservedPort(
  { listener, path }: OwnedClaim,
  reservedPorts: ReadonlyMap<number, string>,
): readonly Finding<"PortUnavailable">[] {
  const use = reservedPorts.get(listener.port);
  // The proxy itself listens by TCP only.
  if (use === undefined || listener.protocol === "UDP") return [];
  const all = [...reservedPorts.keys()].sort((a, b) => a - b).join(", ");
  const message = `port ${listener.port} is used by the proxy itself, for ${use}; accepted is every port except ${all}`;
  return [{ reason: "PortUnavailable", message, path: [...path, "port"] }];
}

/** Kinds of routes that may attach to a listener. */
export function supportedKindsOf(listener: Listener): readonly RouteKind[] {
  return allowedKinds(listener, []).value;
}

/** Returns the supported kinds among `allowedRoutes.kinds`, or all supported ones if it is absent. */
function allowedKinds(listener: Listener, path: FieldPath): Found<readonly RouteKind[], "InvalidRouteKinds"> {
  const { kinds } = listener.allowedRoutes;
  const served = servedKinds(listener);
  if (kinds === undefined || kinds.length === 0) return { value: served, findings: [] };
  const isSupported = (requested: RouteKind) =>
    served.some(({ group, kind }) => group === requested.group && kind === requested.kind);
  const findings = kinds.flatMap((requested, index): Finding<"InvalidRouteKinds">[] => {
    if (isSupported(requested)) return [];
    const message = `routes of kind ${requested.kind} (group "${requested.group}") cannot attach to this listener`;
    return [{ reason: "InvalidRouteKinds", message, path: [...path, "allowedRoutes", "kinds", index] }];
  });
  return { value: kinds.filter(isSupported), findings };
}
