/**
 * Ensures that any request belongs to exactly one listener (Gateway API `GatewaySpec.listeners`, "Distinct Listeners",
 * and `ListenerSetSpec.listeners`). Of conflicting listeners at a socket address, the one with the lower rank number is
 * accepted: Gateways first, then ListenerSets by age and name. Of equal ranks, none is accepted. A new ListenerSet
 * therefore never affects existing listeners.
 */
import { mapInSteps, type Steps } from "@gatewayproxy/runtime/steps";
import type { Listener } from "../../api/listener.ts";
import type { ConflictReason } from "../../api/status.ts";
import type { Finding } from "../status/finding.ts";

/** The claim of a listener to hosts at a socket. */
export interface Claim {
  /** The unique key of the listener. */
  readonly key: string;
  readonly listener: Listener;
  /** Undefined is the listen address of the process; empty if the Gateway is rejected. */
  readonly addresses: readonly (string | undefined)[];
  /** Claims of different places, such as Gateways in their own pods, share no socket. */
  readonly place: string;
  /** The namespace of its owner. Its status does not name conflicting listeners of other namespaces. */
  readonly namespace: string;
  /** 0 for listeners of Gateways. Each ListenerSet has its own rank, lower for older ones. */
  readonly rank: number;
}

/** Returns the conflicts of rejected claims by key, without paths, which the caller adds. A step for each claim. */
export function* findConflicts(claims: readonly Claim[]): Steps<ReadonlyMap<string, Finding<ConflictReason>>> {
  const conflicts = new Map<string, Finding<ConflictReason>>();
  const sockets = new Map<string, Occupants>();
  const byRank = [...Map.groupBy(claims, ({ rank }) => rank)].sort(([a], [b]) => a - b);
  for (const [, equals] of byRank) {
    const places = yield* mapInSteps(equals, (claim) => ({
      claim,
      occupied: socketsOf(claim).map((key) => occupants(sockets, key)),
    }));
    const resolve = ({ claim, occupied }: Place): Resolved => {
      const [conflict] = occupied.flatMap((socket) => findConflict(claim, socket) ?? []);
      return { claim, occupied, conflict };
    };
    // A claim that loses to an accepted one takes nothing from those of its own rank.
    const contenders = rejecting(yield* mapInSteps(places, resolve), conflicts);
    for (const { claim, occupied } of contenders) {
      for (const socket of occupied) socket.add(claim);
      yield;
    }
    const resolved = yield* mapInSteps(contenders, resolve);
    const accepted = new Set(rejecting(resolved, conflicts));
    for (const each of resolved) {
      if (accepted.has(each)) continue;
      for (const socket of each.occupied) socket.remove(each.claim);
    }
  }
  return conflicts;
}

interface Place {
  readonly claim: Claim;
  /** Its sockets. */
  readonly occupied: readonly Occupants[];
}

interface Resolved extends Place {
  readonly conflict: Finding<ConflictReason> | undefined;
}

/** Returns those without a conflict, and adds the conflicts of the others to `conflicts`. */
function rejecting(
  resolved: readonly Resolved[],
  conflicts: Map<string, Finding<ConflictReason>>,
): readonly Resolved[] {
  return resolved.filter(({ claim, conflict }) => {
    if (conflict !== undefined) conflicts.set(claim.key, conflict);
    return conflict === undefined;
  });
}

/** Returns the keys of TLS listeners that share hosts, but not the host name, with another one of their port. */
export function* findOverlaps(claims: readonly Claim[]): Steps<ReadonlySet<string>> {
  const bySocket = new Map<string, Claim[]>();
  for (const claim of claims) {
    if (wireFormat(claim.listener.protocol) !== "tls") continue;
    for (const socket of socketsOf(claim)) {
      const claimants = bySocket.get(socket);
      if (claimants === undefined) bySocket.set(socket, [claim]);
      else claimants.push(claim);
    }
    yield;
  }
  const overlapping = new Set<string>();
  for (const claimants of bySocket.values()) {
    for (const { key } of yield* overlapsOf(claimants)) overlapping.add(key);
    yield;
  }
  return overlapping;
}

/** Finds the claims of a socket that share hosts with another one. A step for each host name. */
function* overlapsOf(claims: readonly Claim[]): Steps<readonly Claim[]> {
  const byHostname = Map.groupBy(claims, ({ listener }) => listener.hostname);
  // A claim for every host shares hosts with all others.
  if (byHostname.has(undefined) && claims.length > 1) return claims;
  const wildcards = wildcardsBySuffix(byHostname.keys());
  const shared = new Set<string | undefined>();
  for (const [hostname, equals] of byHostname) {
    if (equals.length > 1) shared.add(hostname);
    for (const wider of wildcardsAbove(hostname, wildcards)) shared.add(hostname).add(wider);
    yield;
  }
  return [...shared].flatMap((hostname) => byHostname.get(hostname) ?? []);
}

/** Wildcard host names by the part after the asterisk. */
function wildcardsBySuffix(hostnames: Iterable<string | undefined>): ReadonlyMap<string, string> {
  const wildcards = new Map<string, string>();
  for (const hostname of hostnames) {
    if (hostname?.startsWith("*.") === true) wildcards.set(hostname.slice(1), hostname);
  }
  return wildcards;
}

/** Finds the wildcards that cover a host name: `*.b.test` and `*.test` for `a.b.test`; for a wildcard, wider ones. */
function wildcardsAbove(hostname: string | undefined, wildcards: ReadonlyMap<string, string>): readonly string[] {
  const above: string[] = [];
  if (hostname === undefined || wildcards.size === 0) return above;
  // A name of 126 labels has as many suffixes. They are looked up without creating the wildcard names.
  for (let dot = hostname.indexOf("."); dot !== -1; dot = hostname.indexOf(".", dot + 1)) {
    const wider = wildcards.get(hostname.slice(dot));
    if (wider !== undefined && wider !== hostname) above.push(wider);
  }
  return above;
}

/** Returns the sockets of a claim. A port of UDP is another one than that of TCP. */
function socketsOf({ place, addresses, listener: { port, protocol } }: Claim): readonly string[] {
  const socket = protocol === "UDP" ? `${port}/UDP` : String(port);
  return addresses.map((address) => `${place} ${address ?? "*"} ${socket}`);
}

function occupants(sockets: Map<string, Occupants>, key: string): Occupants {
  const known = sockets.get(key);
  if (known !== undefined) return known;
  const fresh = new Occupants();
  sockets.set(key, fresh);
  return fresh;
}

/** The claims of a socket that can conflict with others: those with a known protocol. */
class Occupants {
  readonly #byFormat = new Map<WireFormat | undefined, Set<Claim>>();
  readonly #byHostname = new Map<string | undefined, Set<Claim>>();

  add(claim: Claim): void {
    const { protocol, hostname } = claim.listener;
    const format = wireFormat(protocol);
    if (format === undefined) return;
    setOf(this.#byFormat, format).add(claim);
    setOf(this.#byHostname, hostname).add(claim);
  }

  remove(claim: Claim): void {
    const { protocol, hostname } = claim.listener;
    this.#byFormat.get(wireFormat(protocol))?.delete(claim);
    this.#byHostname.get(hostname)?.delete(claim);
  }

  /** A claim with another wire format. */
  withOtherFormat(format: WireFormat): Claim | undefined {
    for (const [other, claims] of this.#byFormat) if (other !== format) for (const claim of claims) return claim;
    return undefined;
  }

  /** Another claim of the same host name. */
  twinOf(claim: Claim): Claim | undefined {
    for (const other of this.#byHostname.get(claim.listener.hostname) ?? []) if (other !== claim) return other;
    return undefined;
  }
}

function setOf<Key>(sets: Map<Key, Set<Claim>>, key: Key): Set<Claim> {
  const known = sets.get(key);
  if (known !== undefined) return known;
  const fresh = new Set<Claim>();
  sets.set(key, fresh);
  return fresh;
}

function findConflict(claim: Claim, socket: Occupants): Finding<ConflictReason> | undefined {
  const { hostname, port, protocol } = claim.listener;
  const format = wireFormat(protocol);
  if (format === undefined) return undefined;
  const foreign = socket.withOtherFormat(format);
  if (foreign !== undefined) {
    const message = `port ${port} has protocol ${foreign.listener.protocol} in ${nameFor(claim, foreign)}`;
    return { reason: "ProtocolConflict", message, path: [] };
  }
  const twin = socket.twinOf(claim);
  if (twin === undefined) return undefined;
  if (format === "any") {
    const message = `port ${port} is also claimed by ${nameFor(claim, twin)}, and a ${protocol} listener has a port alone`;
    return { reason: "ProtocolConflict", message, path: [] };
  }
  const host = hostname === undefined ? "every hostname" : `hostname ${hostname}`;
  const message = `port ${port} and ${host} are also claimed by ${nameFor(claim, twin)}`;
  return { reason: "HostnameConflict", message, path: [] };
}

function nameFor({ namespace }: Claim, other: Claim): string {
  return other.namespace === namespace ? `listener ${other.key}` : "a listener of another namespace";
}

type WireFormat = "plain" | "tls" | "any";

/** The format of the first bytes of a client. Listeners with different formats cannot share a port. */
function wireFormat(protocol: string): WireFormat | undefined {
  switch (protocol) {
    case "HTTP":
      return "plain";
    case "HTTPS":
    case "TLS":
      return "tls";
    case "TCP":
    case "UDP":
      return "any";
    default:
      return undefined;
  }
}
