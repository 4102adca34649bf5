/**
 * That any request belongs to exactly one listener (Gateway API `GatewaySpec.listeners`, "Distinct Listeners", and
 * `ListenerSetSpec.listeners`). Listeners that stand in each other's way on one socket address are told apart by rank:
 * Gateways first, then ListenerSets by age and name. Of equal rank none wins; a lower rank never takes anything from a
 * higher one, so that nobody who adds a ListenerSet can break what is there.
 */
import { mapInSteps, type Steps } from "@gatewayproxy/runtime/steps";
import type { Listener } from "../api/listener.ts";
import type { ConflictReason } from "../api/status.ts";
import type { Finding } from "./finding.ts";

/** A listener that asks for a place. */
export interface Claim {
  /** Of the listener, unlike any other. */
  readonly key: string;
  readonly listener: Listener;
  /** Undefined stands for the process's own listen address; none when the Gateway is refused. */
  readonly addresses: readonly (string | undefined)[];
  /** Claims of different places share no socket: such as Gateways in pods of their own. */
  readonly place: string;
  /** Of its owner, which is told nothing of listeners of other namespaces but that they are in the way. */
  readonly namespace: string;
  /** 0 for listeners of Gateways; each ListenerSet has its own, the older the lower. */
  readonly rank: number;
}

/** Finds the reasons of those that lose, by key; the paths of the findings are the caller's. A step for each claim. */
export function* findConflicts(claims: readonly Claim[]): Steps<ReadonlyMap<string, Finding<ConflictReason>>> {
  const conflicts = new Map<string, Finding<ConflictReason>>();
  const sockets = new Map<string, Occupants>();
  const byRank = [...Map.groupBy(claims, ({ rank }) => rank)].sort(([a], [b]) => a - b);
  for (const [, equals] of byRank) {
    // Those of the same rank are judged together, against each other and those that have won.
    const places = yield* mapInSteps(equals, (claim) => {
      const occupied = socketsOf(claim).map((key) => occupants(sockets, key));
      for (const socket of occupied) socket.add(claim);
      return { claim, occupied };
    });
    const judged = yield* mapInSteps(places, ({ claim, occupied }) => {
      const [conflict] = occupied.flatMap((socket) => findConflict(claim, socket) ?? []);
      return { claim, occupied, conflict };
    });
    for (const { claim, occupied, conflict } of judged) {
      if (conflict === undefined) continue;
      conflicts.set(claim.key, conflict);
      for (const socket of occupied) socket.remove(claim);
    }
  }
  return conflicts;
}

/** Finds the keys of TLS listeners that share hosts, though not a host name, with another one of their port. */
export function* findOverlaps(claims: readonly Claim[]): Steps<ReadonlySet<string>> {
  const bySocket = new Map<string, Claim[]>();
  for (const claim of claims) {
    if (claim.listener.protocol !== "HTTPS") continue;
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

/** Finds those among the claims of one socket that share hosts with another. A step for each host name. */
function* overlapsOf(claims: readonly Claim[]): Steps<readonly Claim[]> {
  const byHostname = Map.groupBy(claims, ({ listener }) => listener.hostname);
  // The one for every host shares hosts with all others.
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

/** Wildcard host names by what follows their star. */
function wildcardsBySuffix(hostnames: Iterable<string | undefined>): ReadonlyMap<string, string> {
  const wildcards = new Map<string, string>();
  for (const hostname of hostnames) {
    if (hostname?.startsWith("*.") === true) wildcards.set(hostname.slice(1), hostname);
  }
  return wildcards;
}

/** Finds `*.b.test` and `*.test` for `a.b.test` among the wildcards; for a wildcard those that are wider. */
function wildcardsAbove(hostname: string | undefined, wildcards: ReadonlyMap<string, string>): readonly string[] {
  const above: string[] = [];
  if (hostname === undefined || wildcards.size === 0) return above;
  // A name of 126 labels has as many suffixes: they are looked up as they are, and no name is made of them.
  for (let dot = hostname.indexOf("."); dot !== -1; dot = hostname.indexOf(".", dot + 1)) {
    const wider = wildcards.get(hostname.slice(dot));
    if (wider !== undefined && wider !== hostname) above.push(wider);
  }
  return above;
}

/** Each socket that a claim is for. */
function socketsOf({ place, addresses, listener }: Claim): readonly string[] {
  return addresses.map((address) => `${place} ${address ?? "*"} ${listener.port}`);
}

function occupants(sockets: Map<string, Occupants>, key: string): Occupants {
  const known = sockets.get(key);
  if (known !== undefined) return known;
  const fresh = new Occupants();
  sockets.set(key, fresh);
  return fresh;
}

/** The claims of one socket that stand in others' way: not those that are refused for their protocol anyway. */
class Occupants {
  readonly #byFormat = new Map<WireFormat | undefined, Set<Claim>>();
  readonly #byHostname = new Map<string | undefined, Set<Claim>>();

  add(claim: Claim): void {
    const { protocol, hostname } = claim.listener;
    if (!isServable(protocol)) return;
    setOf(this.#byFormat, wireFormat(protocol)).add(claim);
    setOf(this.#byHostname, hostname).add(claim);
  }

  remove(claim: Claim): void {
    const { protocol, hostname } = claim.listener;
    this.#byFormat.get(wireFormat(protocol))?.delete(claim);
    this.#byHostname.get(hostname)?.delete(claim);
  }

  /** Some claim whose bytes look otherwise on the wire. */
  withOtherFormat(format: WireFormat): Claim | undefined {
    for (const [other, claims] of this.#byFormat) if (other !== format) for (const claim of claims) return claim;
    return undefined;
  }

  /** Some other claim of the same host name. */
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
  const host = hostname === undefined ? "every hostname" : `hostname ${hostname}`;
  const message = `port ${port} and ${host} are claimed by ${nameFor(claim, twin)} too`;
  return { reason: "HostnameConflict", message, path: [] };
}

function nameFor({ namespace }: Claim, other: Claim): string {
  return other.namespace === namespace ? `listener ${other.key}` : "a listener of another namespace";
}

type WireFormat = "plain" | "tls" | "any";

/** What the first byte on a TCP connection looks like; two of them cannot share a port. */
function wireFormat(protocol: string): WireFormat | undefined {
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
