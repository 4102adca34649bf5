/**
 * That any request belongs to exactly one listener (Gateway API `GatewaySpec.listeners`, "Distinct Listeners", and
 * `ListenerSetSpec.listeners`). Listeners that stand in each other's way on one socket address are told apart by rank:
 * Gateways first, then ListenerSets by age and name. Of equal rank none wins; a lower rank never takes anything from a
 * higher one, so that nobody who adds a ListenerSet can break what is there.
 */
import type { Listener } from "../api/listener.ts";
import type { ConflictReason } from "../api/status.ts";
import type { Finding } from "./finding.ts";
import { covers } from "./hostnames.ts";

/** A listener that asks for a place. */
export interface Claim {
  /** Of the listener, unlike any other. */
  readonly key: string;
  readonly listener: Listener;
  /** Undefined stands for the process's own listen address; none when the Gateway is refused. */
  readonly addresses: readonly (string | undefined)[];
  /** Claims of different places share no socket: such as Gateways in pods of their own. */
  readonly place: string;
  /** 0 for listeners of Gateways; each ListenerSet has its own, the older the lower. */
  readonly rank: number;
}

/** The reasons of those that lose, by key; the paths of the findings are the caller's. */
export function findConflicts(claims: readonly Claim[]): ReadonlyMap<string, Finding<ConflictReason>> {
  const conflicts = new Map<string, Finding<ConflictReason>>();
  const sockets = groupBySocket(claims);
  const ranks = [...new Set(claims.map(({ rank }) => rank))].sort((a, b) => a - b);
  for (const rank of ranks) {
    // Those of the same rank are judged together, against each other and those that have won.
    const losers = new Map<string, Finding<ConflictReason>>();
    for (const claimants of sockets) {
      const present = claimants.filter((claim) => claim.rank <= rank && !conflicts.has(claim.key));
      for (const claim of present.filter((candidate) => candidate.rank === rank)) {
        const conflict = findConflict(claim, present);
        if (conflict !== undefined) losers.set(claim.key, conflict);
      }
    }
    for (const [key, conflict] of losers) conflicts.set(key, conflict);
  }
  return conflicts;
}

/** Keys of TLS listeners that share hosts, though not a host name, with another one of their port. */
export function findOverlaps(claims: readonly Claim[]): ReadonlySet<string> {
  const overlapping = new Set<string>();
  for (const claimants of groupBySocket(claims)) {
    const ofTls = claimants.filter(({ listener }) => listener.protocol === "HTTPS");
    for (const { key, listener } of ofTls) {
      const others = ofTls.filter((other) => other.key !== key);
      if (others.some((other) => sharesHosts(listener.hostname, other.listener.hostname))) overlapping.add(key);
    }
  }
  return overlapping;
}

function sharesHosts(a: string | undefined, b: string | undefined): boolean {
  return a === undefined || b === undefined || covers(a, b) || covers(b, a);
}

function groupBySocket(claims: readonly Claim[]): readonly (readonly Claim[])[] {
  const bySocket = new Map<string, Claim[]>();
  for (const claim of claims) {
    for (const address of claim.addresses) {
      const socket = `${claim.place} ${address ?? "*"} ${claim.listener.port}`;
      const claimants = bySocket.get(socket);
      if (claimants === undefined) bySocket.set(socket, [claim]);
      else claimants.push(claim);
    }
  }
  return [...bySocket.values()];
}

function findConflict(claim: Claim, claims: readonly Claim[]): Finding<ConflictReason> | undefined {
  const { hostname, port, protocol } = claim.listener;
  const transport = wireFormat(protocol);
  if (transport === undefined) return undefined;
  // A listener that is refused anyway stands in nobody's way.
  const others = claims.filter(({ key, listener }) => key !== claim.key && isServable(listener.protocol));
  const foreign = others.find(({ listener }) => wireFormat(listener.protocol) !== transport);
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

/** What the first byte on a TCP connection looks like; two of them cannot share a port. */
function wireFormat(protocol: string): "plain" | "tls" | "any" | undefined {
  switch (protocol) {
    case "HTTP":
      return "plain";
    case "HTTPS":
    case "TLS":
      return "tls";
    case "TCP":
      return "any";
    default:
      return undefined;
  }
}

function isServable(protocol: string): boolean {
  return protocol === "HTTP" || protocol === "HTTPS";
}
