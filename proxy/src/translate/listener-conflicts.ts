/**
 * That any request belongs to exactly one listener (Gateway API `GatewaySpec.listeners`, "Distinct Listeners", and
 * `ListenerSetSpec.listeners`). Listeners that stand in each other's way on one socket address are told apart by rank:
 * Gateways first, then ListenerSets by age and name. Of equal rank none wins; a lower rank never takes anything from a
 * higher one, so that nobody who adds a ListenerSet can break what is there.
 */
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

/** The reasons of those that lose, by key; the paths of the findings are the caller's. */
export function findConflicts(claims: readonly Claim[]): ReadonlyMap<string, Finding<ConflictReason>> {
  const conflicts = new Map<string, Finding<ConflictReason>>();
  const sockets = new Map<string, Occupants>();
  const byRank = [...Map.groupBy(claims, ({ rank }) => rank)].sort(([a], [b]) => a - b);
  for (const [, equals] of byRank) {
    // Those of the same rank are judged together, against each other and those that have won.
    const places = equals.map((claim) => ({ claim, occupied: socketsOf(claim).map((key) => occupants(sockets, key)) }));
    for (const { claim, occupied } of places) for (const socket of occupied) socket.add(claim);
    const losers = places.flatMap(({ claim, occupied }) => {
      const [conflict] = occupied.flatMap((socket) => findConflict(claim, socket) ?? []);
      return conflict === undefined ? [] : [{ claim, occupied, conflict }];
    });
    for (const { claim, occupied, conflict } of losers) {
      conflicts.set(claim.key, conflict);
      for (const socket of occupied) socket.remove(claim);
    }
  }
  return conflicts;
}

/** Keys of TLS listeners that share hosts, though not a host name, with another one of their port. */
export function findOverlaps(claims: readonly Claim[]): ReadonlySet<string> {
  const ofTls = claims.filter(({ listener }) => listener.protocol === "HTTPS");
  const places = ofTls.flatMap((claim) => socketsOf(claim).map((socket) => ({ socket, claim })));
  const bySocket = Map.groupBy(places, ({ socket }) => socket);
  return new Set([...bySocket.values()].flatMap((claimants) => overlapsOf(claimants.map(({ claim }) => claim))));
}

/** Keys of those among the claims of one socket that share hosts with another. */
function overlapsOf(claims: readonly Claim[]): readonly string[] {
  const byHostname = Map.groupBy(claims, ({ listener }) => listener.hostname);
  const isCatchAllThere = byHostname.has(undefined) && claims.length > 1;
  const shared = [...byHostname].flatMap(([hostname, equals]) => {
    const wider = hostname === undefined ? [] : wildcardsAbove(hostname).flatMap((name) => byHostname.get(name) ?? []);
    if (wider.length > 0) return [...equals, ...wider];
    return isCatchAllThere || equals.length > 1 ? equals : [];
  });
  return shared.map(({ key }) => key);
}

/** `*.b.test` and `*.test` of `a.b.test`; of a wildcard those that are wider. */
function wildcardsAbove(hostname: string): readonly string[] {
  const labels = hostname.split(".");
  return labels.slice(1).flatMap((_, index) => {
    const wildcard = `*.${labels.slice(index + 1).join(".")}`;
    return wildcard === hostname ? [] : [wildcard];
  });
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
