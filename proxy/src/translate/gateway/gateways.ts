/**
 * Resolves the Gateways of this controller: their addresses, their parameters, their ListenerSets, and their listeners
 * (`listeners.ts`).
 */
import { isIP, SocketAddress } from "node:net";
import { mapInSteps, type Steps } from "@gatewayproxy/runtime/steps";
import type { Gateway } from "../../api/gateway.ts";
import { resourceKey } from "../../api/resource.ts";
import { type ResourceProblem, resourceProblem } from "../../api/resource-problem.ts";
import type { TranslationContext } from "../context.ts";
import { eachObject, eachObjectInSteps, itself } from "../each-object.ts";
import type { Environment } from "../environment.ts";
import { nameKey } from "../index/object-names.ts";
import { keepingEqual } from "@gatewayproxy/runtime/memoised";
import { type BeyondListenerShare, gatewaysBeyondShare, setsBeyondShare } from "../listener/listener-budget.ts";
import { type ListenerSetState, type PlacedSet, placeListenerSets } from "../listener/listener-sets.ts";
import { resolveListeners, listenerKey, type ListenerState } from "../listener/listeners.ts";
import { type Finding, type Found, rejectedByParser } from "../status/finding.ts";
import { findingsOf, type FindingOf } from "../status/findings-table.ts";
import { classFindings } from "./gateway-classes.ts";
import { type Caller, callerOf, resolveClientCertificate } from "./gateway-client-certificate.ts";

/** A Gateway of this controller. */
export interface GatewayState {
  readonly gateway: Gateway;
  /**
   * Addresses to listen at; undefined is every address of the machine. Empty if it is rejected or has no usable
   * address.
   */
  readonly addresses: readonly (string | undefined)[];
  /** Whether anything of it can be served. */
  readonly isAccepted: boolean;
  /** False if it is beyond the share of its namespace: it has no listeners then. */
  readonly isValidated: boolean;
  /** The Gateway as a client of backends. */
  readonly caller: Caller;
  /** Of the Gateway itself, without its listeners. */
  readonly findings: readonly FindingOf<"Gateway">[];
  /** The listeners of the Gateway itself, in its order. */
  readonly listeners: readonly ListenerState[];
  /** ListenerSets with this Gateway as their parent, in the order of their precedence. */
  readonly sets: readonly ListenerSetState[];
}

/** All Gateways, and the parents that routes may name. */
export interface ResolvedGateways {
  /** The Gateways of this controller by `namespace/name`, sorted by namespace and name. */
  readonly ours: ReadonlyMap<string, GatewayState>;
  /** Every Gateway that exists, of any controller, by `namespace/name`. */
  readonly all: ReadonlyMap<string, Gateway>;
  /** The objects to which routes may attach, by the kind of a parentRef. */
  readonly parents: ReadonlyMap<string, Parents>;
  readonly problems: readonly ResourceProblem[];
}

/** The objects of a kind that has listeners, by `namespace/name`. */
export interface Parents {
  /** The listeners of the objects of this controller; empty for a rejected object. */
  readonly ours: ReadonlyMap<string, readonly ListenerState[]>;
  readonly all: { has(name: string): boolean };
}

/** Resolves all Gateways of this controller. */
export function* resolveGateways(context: TranslationContext): Steps<ResolvedGateways> {
  const { index } = context;
  const all = index.gateways;
  const ownGateways = [...all.values()].filter((gateway) => index.ownershipOf(gateway) === "ours");
  const beyond = gatewaysBeyondShare(ownGateways);
  const resolved = yield* eachObject(ownGateways, itself, (gateway) => {
    const excess = beyond.get(gateway);
    return excess === undefined ? resolveGateway(context, gateway) : unvalidated(gateway, excess);
  });
  const byName = new Map(resolved.map((state) => [nameKey(state.gateway), state]));
  const { value: placed, problems } = yield* placeListenerSets(context, byName);
  const ours = yield* withListeners(context, resolved, yield* withinShares(context, byName, placed));
  const sets = [...ours.values()].flatMap((state) => state.sets);
  const allSets = new Set(index.resources.ListenerSet.map(nameKey));
  const unknown = [...all.values()].filter((gateway) => index.ownershipOf(gateway) === "unknown");
  return {
    ours,
    all,
    parents: new Map<string, Parents>([
      ["Gateway", { ours: new Map([...ours].map(([name, { listeners }]) => [name, listeners])), all }],
      ["ListenerSet", { ours: new Map(sets.map(({ set, listeners }) => [nameKey(set), listeners])), all: allSets }],
    ]),
    problems: [...unknown.map(unknownClass), ...problems],
  };
}

function unvalidated(gateway: Gateway, excess: BeyondListenerShare<"TooManyListenersInAll">): ResolvedGateway {
  const findings = [{ ...excess, path: ["spec", "listeners"] }];
  return {
    gateway,
    addresses: [],
    isAccepted: false,
    isValidated: false,
    caller: callerOf(gateway, undefined),
    findings,
  };
}

/** Returns the sets, those beyond the share of their namespace with a finding. */
function* withinShares(
  { placeOf }: TranslationContext,
  gateways: ReadonlyMap<string, ResolvedGateway>,
  placed: readonly PlacedSet[],
): Steps<readonly PlacedSet[]> {
  const allowed = placed.flatMap(({ set, gateway, findings }) => {
    const parent = findings.length === 0 ? gateways.get(gateway) : undefined;
    return parent === undefined ? [] : [{ set, gateway: parent.gateway }];
  });
  const beyond = yield* setsBeyondShare(allowed, placeOf);
  if (beyond.size === 0) return placed;
  return placed.map((each) => {
    const excess = beyond.get(each.set);
    return excess === undefined ? each : { ...each, findings: [{ ...excess, path: ["spec", "listeners"] }] };
  });
}

/** What depends on the listeners of an unchanged Gateway or ListenerSet stays as it is. */
const keptListeners = keepingEqual<readonly ListenerState[]>();
const keptState = keepingEqual<GatewayState>();

type ResolvedGateway = Omit<GatewayState, "listeners" | "sets">;

/** Resolves all listeners together, and returns each to its owner. */
function* withListeners(
  context: TranslationContext,
  gateways: readonly ResolvedGateway[],
  placed: readonly PlacedSet[],
): Steps<ReadonlyMap<string, GatewayState>> {
  const ranks = new Map(placed.map(({ set }, index) => [set, index + 1]));
  const byGateway = Map.groupBy(placed, ({ gateway }) => gateway);
  const hosts = gateways
    .filter(({ isValidated }) => isValidated)
    .map(({ gateway, addresses }) => {
      const accepted = (byGateway.get(nameKey(gateway)) ?? []).filter(({ findings }) => findings.length === 0);
      const sets = accepted.map(({ set }) => ({ set, rank: ranks.get(set) ?? 0 }));
      return { gateway, addresses, place: context.placeOf(gateway), sets };
    });
  const resolved = yield* resolveListeners(context, hosts);
  const gatewayOf = ({ gateway }: ResolvedGateway) => gateway;
  const states = yield* eachObjectInSteps(gateways, gatewayOf, function* (state): Steps<[string, GatewayState]> {
    const { gateway } = state;
    const listenersOf = (owner: ListenerState["owner"]) => {
      const states = owner.spec.listeners.flatMap(({ name }) => resolved.get(listenerKey(gateway, owner, name)) ?? []);
      return keptListeners(owner, states);
    };
    const sets = yield* mapInSteps(byGateway.get(nameKey(gateway)) ?? [], (candidate) => ({
      ...candidate,
      listeners: candidate.findings.length > 0 ? [] : listenersOf(candidate.set),
    }));
    return [nameKey(gateway), keptState(gateway, { ...state, listeners: listenersOf(gateway), sets })];
  });
  return new Map(states);
}

function unknownClass(gateway: Gateway): ResourceProblem {
  const found = gateway.spec.gatewayClassName;
  const message = `GatewayClass "${found}" does not exist, accepted is "gateway-proxy"; this Gateway is ignored`;
  return resourceProblem(resourceKey(gateway), ["spec", "gatewayClassName"], message, "ReferentNotFound");
}

function resolveGateway(context: TranslationContext, gateway: Gateway): ResolvedGateway {
  const { environment } = context;
  const rejections = rejectionsOf(context, gateway);
  const addresses = usableAddresses(gateway, environment);
  const all = [...rejections, ...addresses.findings];
  const isAccepted = findingsOf("Gateway", "Accepted", all).length === 0;
  const { value: usable } = addresses;
  const sockets = environment.isolatesGateways && usable.length > 0 ? [environment.defaultAddress] : usable;
  const clientCertificate = resolveClientCertificate(context, gateway);
  return {
    gateway,
    addresses: isAccepted ? sockets : [],
    isAccepted,
    isValidated: true,
    caller: callerOf(gateway, clientCertificate.value),
    findings: [
      ...all,
      ...clientCertificate.findings,
      ...unsupportedFields(gateway),
      ...(environment.limitedInfrastructure?.(gateway) ?? []),
    ],
  };
}

/** Returns why nothing of a Gateway can be served, except for its addresses. */
function rejectionsOf(
  { index, environment }: TranslationContext,
  gateway: Gateway,
): readonly Finding<"Invalid" | "InvalidParameters">[] {
  const rejections: Finding<"Invalid" | "InvalidParameters">[] = [];
  if (gateway.spec.listeners.length === 0) rejections.push(rejectedByParser);
  const gatewayClass = index.classes.get(gateway.spec.gatewayClassName);
  if (gatewayClass !== undefined && classFindings(gatewayClass, environment).length > 0) {
    const message = `GatewayClass ${gatewayClass.metadata.name} is not accepted`;
    rejections.push({ reason: "InvalidParameters", message, path: ["spec", "gatewayClassName"] });
  }
  const problem = gateway.spec.infrastructure?.parametersRef && environment.validateParameters(gateway);
  if (problem !== undefined) {
    const path = ["spec", "infrastructure", "parametersRef"];
    rejections.push({ reason: "InvalidParameters", message: problem, path });
  }
  return rejections;
}

/** Returns each usable address of a Gateway once; undefined is every address of the machine. */
function usableAddresses(
  { spec: { addresses } }: Gateway,
  { defaultAddress }: Environment,
): Found<readonly (string | undefined)[], "UnsupportedAddress" | "AddressNotUsable"> {
  const findings: Finding<"UnsupportedAddress" | "AddressNotUsable">[] = [];
  const usable = new Set<string | undefined>(addresses.length === 0 ? [defaultAddress] : []);
  addresses.forEach(({ type, value }, index) => {
    const path = ["spec", "addresses", index];
    if (type !== "IPAddress") {
      const message = `address type ${type} is not supported, accepted is IPAddress`;
      findings.push({ reason: "UnsupportedAddress", message, path: [...path, "type"] });
    } else if (value === undefined || value === "") {
      usable.add(defaultAddress);
    } else if (isIP(value) === 0) {
      const message = `"${value}" is not an IP address`;
      findings.push({ reason: "AddressNotUsable", message, path: [...path, "value"] });
    } else {
      usable.add(canonicalAddress(value));
    }
  });
  return { value: [...usable], findings };
}

/** Returns one text for each address: `0:0:0:0:0:0:0:1` and `::1` are the same socket. */
function canonicalAddress(address: string): string {
  // A zone (`fe80::1%eth0`) would be lost.
  if (isIP(address) !== 6 || address.includes("%")) return address;
  return new SocketAddress({ address, family: "ipv6" }).address;
}

/** Returns a finding for each field that is accepted without an effect. */
function unsupportedFields({ spec }: Gateway): readonly Finding<"Unsupported">[] {
  const unsupported: Finding<"Unsupported">[] = [];
  const add = (...path: string[]) => {
    const field = ["spec", ...path];
    unsupported.push({ reason: "Unsupported", message: `${field.join(".")} is not supported`, path: field });
  };
  if ((spec.defaultScope ?? "None") !== "None") add("defaultScope");
  return unsupported;
}
