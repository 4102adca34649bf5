/**
 * Judges listeners, each by itself and all against each other: which protocols we serve, which kinds of routes may
 * attach, and that any request belongs to exactly one listener (Gateway API `GatewaySpec.listeners`, "Distinct
 * Listeners"). Gateways may share a port, so the rules hold across Gateways too.
 */
import type { Gateway, GatewayListener } from "../api/gateway.ts";
import type { FieldPath } from "../api/issue.ts";
import { gatewayGroup } from "../api/names.ts";
import type { ConflictReason } from "../api/status.ts";
import type { Finding } from "./finding.ts";
import { nameKey } from "./object-names.ts";

/** A listener of a Gateway of ours. */
export interface ListenerState {
  readonly gateway: Gateway;
  readonly listener: GatewayListener;
  /** `namespace/gateway/listener` */
  readonly key: string;
  readonly path: FieldPath;
  readonly supportedKinds: readonly RouteKind[];
  /** Why it serves nothing; empty when accepted. */
  readonly refusals: readonly Finding<ListenerRefusal>[];
  /** Kinds of routes that it names and we do not serve; it serves the others. */
  readonly invalidKinds: readonly Finding<"InvalidRouteKinds">[];
  /** Whether it stands in the snapshot: accepted, on a Gateway that is. */
  readonly isProgrammed: boolean;
}

export type ListenerRefusal = "UnsupportedProtocol" | ConflictReason;

export interface RouteKind {
  readonly group: string;
  readonly kind: string;
}

/** Protocols that we serve, and the routes that each can have. A new protocol is one line here. */
const servedProtocols: Readonly<Record<string, readonly RouteKind[]>> = {
  HTTP: [{ group: gatewayGroup, kind: "HTTPRoute" }],
};

/** The listeners of one Gateway and the socket addresses they are asked for at. */
export interface ListenerHost {
  readonly gateway: Gateway;
  /** Undefined stands for the process's own listen address; none when the Gateway is refused. */
  readonly addresses: readonly (string | undefined)[];
}

/** Judges the listeners of all Gateways; keys are `namespace/gateway/listener`. */
export function judgeListeners(hosts: readonly ListenerHost[]): ReadonlyMap<string, ListenerState> {
  const conflicts = findConflicts(hosts);
  const states = new Map<string, ListenerState>();
  for (const { gateway, addresses } of hosts) {
    gateway.spec.listeners.forEach((listener, index) => {
      const state = judgeListener(gateway, listener, index, conflicts);
      const isProgrammed = state.refusals.length === 0 && addresses.length > 0;
      states.set(state.key, { ...state, isProgrammed });
    });
  }
  return states;
}

function judgeListener(
  gateway: Gateway,
  listener: GatewayListener,
  index: number,
  conflicts: ReadonlyMap<string, Finding<ConflictReason>>,
): Omit<ListenerState, "isProgrammed"> {
  const path = ["spec", "listeners", index];
  const key = listenerKey(gateway, listener);
  const served = Object.hasOwn(servedProtocols, listener.protocol) ? servedProtocols[listener.protocol] : undefined;
  const kinds = allowedKinds(listener, path, served ?? []);
  const conflict = conflicts.get(key);
  const refusals: Finding<ListenerRefusal>[] = conflict === undefined ? [] : [{ ...conflict, path }];
  if (served === undefined) {
    const accepted = Object.keys(servedProtocols).join(", ");
    const message = `protocol ${listener.protocol} is not served by this version, accepted is ${accepted}`;
    refusals.unshift({ reason: "UnsupportedProtocol", message, path: [...path, "protocol"] });
  }
  return { gateway, listener, key, path, refusals, ...kinds };
}

function listenerKey(gateway: Gateway, listener: GatewayListener): string {
  return `${nameKey(gateway)}/${listener.name}`;
}

/** `allowedRoutes.kinds` narrowed to what we serve; absent means all of it. */
function allowedKinds(
  { allowedRoutes: { kinds } }: GatewayListener,
  path: FieldPath,
  served: readonly RouteKind[],
): Pick<ListenerState, "supportedKinds" | "invalidKinds"> {
  if (kinds === undefined || kinds.length === 0) return { supportedKinds: served, invalidKinds: [] };
  const isServed = (asked: RouteKind) => served.some(({ group, kind }) => group === asked.group && kind === asked.kind);
  const invalidKinds = kinds.flatMap((asked, index): Finding<"InvalidRouteKinds">[] => {
    if (isServed(asked)) return [];
    const message = `routes of kind ${asked.kind} (group "${asked.group}") cannot attach to this listener`;
    return [{ reason: "InvalidRouteKinds", message, path: [...path, "allowedRoutes", "kinds", index] }];
  });
  return { supportedKinds: kinds.filter(isServed), invalidKinds };
}

interface Claim {
  readonly key: string;
  readonly listener: GatewayListener;
}

/** Listeners that another one makes ambiguous. None of them wins, says the API. */
function findConflicts(hosts: readonly ListenerHost[]): ReadonlyMap<string, Finding<ConflictReason>> {
  const bySocket = new Map<string, Claim[]>();
  for (const { gateway, addresses } of hosts) {
    for (const listener of gateway.spec.listeners) {
      if (wireFormat(listener) === undefined) continue;
      for (const address of addresses) {
        const socket = `${address ?? "*"} ${listener.port}`;
        const claims = bySocket.get(socket) ?? [];
        claims.push({ key: listenerKey(gateway, listener), listener });
        bySocket.set(socket, claims);
      }
    }
  }
  const conflicts = new Map<string, Finding<ConflictReason>>();
  for (const claims of bySocket.values()) {
    for (const claim of claims) {
      const conflict = findConflict(claim, claims);
      if (conflict !== undefined) conflicts.set(claim.key, conflict);
    }
  }
  return conflicts;
}

function findConflict(claim: Claim, claims: readonly Claim[]): Finding<ConflictReason> | undefined {
  const { hostname, port } = claim.listener;
  const others = claims.filter(({ key }) => key !== claim.key);
  const foreign = others.find(({ listener }) => wireFormat(listener) !== wireFormat(claim.listener));
  if (foreign !== undefined) {
    const message = `port ${port} has protocol ${foreign.listener.protocol} in listener ${foreign.key}`;
    return { reason: "ProtocolConflict", message, path: [] };
  }
  const twin = others.find(({ listener }) => listener.hostname === hostname);
  if (twin === undefined) return undefined;
  const host = hostname === undefined ? "every hostname" : `hostname ${hostname}`;
  const message = `port ${port} and ${host} are claimed by listener ${twin.key} too`;
  return { reason: "HostnameConflict", message, path: [] };
}

/** What the first byte on the wire looks like; two of them cannot share a port. Others are refused anyway. */
function wireFormat({ protocol }: GatewayListener): "plain" | "tls" | undefined {
  if (protocol === "HTTP") return "plain";
  return protocol === "HTTPS" || protocol === "TLS" ? "tls" : undefined;
}
