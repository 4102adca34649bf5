/**
 * Resolves the Gateways of this controller: their addresses, their parameters, their ListenerSets, and their listeners
 * (`listeners.ts`).
 */
import { isIP, SocketAddress } from "node:net";
import { mapInSteps, type Steps } from "@gatewayproxy/runtime/steps";
import type { Gateway } from "../../api/gateway.ts";
import type { GatewayClass } from "../../api/gateway-class.ts";
import { resourceKey } from "../../api/resource.ts";
import { type ResourceProblem, resourceProblem } from "../../api/resource-problem.ts";
import { eachObject, eachObjectInSteps, itself } from "../each-object.ts";
import type { Environment } from "../environment.ts";
import { type Finding, rejectedByParser } from "../status/finding.ts";
import { gatewayOwnership, parametersFinding } from "./gateway-classes.ts";
import { type ListenerSetState, type PlacedSet, placeListenerSets } from "../listener/listener-sets.ts";
import { tlsResolver } from "../tls/listener-tls.ts";
import { resolveListeners, listenerKey, type ListenerState } from "../listener/listeners.ts";
import { clientCertificateResolver, type ResolvedClientCertificate } from "./gateway-client-certificate.ts";
import type { ReadableResources } from "../reference/named-objects.ts";
import type { NamespaceLabels } from "../index/namespaces.ts";
import { nameKey, sortByName } from "../index/object-names.ts";

export interface GatewayState {
  readonly gateway: Gateway;
  /** Addresses to listen at; undefined is every address of the machine. Empty if it is rejected or has no usable address. */
  readonly addresses: readonly (string | undefined)[];
  /** Why nothing of it is served; empty if it is accepted. */
  readonly rejections: readonly Finding<"UnsupportedAddress" | "InvalidParameters" | "Invalid">[];
  readonly unusableAddresses: readonly Finding<"AddressNotUsable">[];
  /** For backends that request one. */
  readonly clientCertificate: ResolvedClientCertificate;
  /** Fields that are set and not supported. */
  readonly unsupported: readonly Finding<"Unsupported">[];
  /** The listeners of the Gateway itself, in its order. */
  readonly listeners: readonly ListenerState[];
  /** ListenerSets with this Gateway as their parent, in the order of their precedence. */
  readonly sets: readonly ListenerSetState[];
}

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

export function* resolveGateways(
  resources: ReadableResources,
  labels: NamespaceLabels,
  environment: Environment,
): Steps<ResolvedGateways> {
  const ownershipOf = gatewayOwnership(resources.GatewayClass);
  const classes = new Map(resources.GatewayClass.map((gatewayClass) => [gatewayClass.metadata.name, gatewayClass]));
  const sorted = sortByName(resources.Gateway);
  const resolved = yield* eachObject(
    sorted.filter((gateway) => ownershipOf(gateway) === "ours"),
    itself,
    (gateway) => resolveGateway(gateway, classes.get(gateway.spec.gatewayClassName), environment),
  );
  const all = new Map(sorted.map((gateway) => [nameKey(gateway), gateway]));
  const byName = new Map(resolved.map((state) => [nameKey(state.gateway), state]));
  const { placed, problems } = yield* placeListenerSets(resources.ListenerSet, byName, new Set(all.keys()), labels);
  const ours = yield* withListeners(resolved, placed, resources, environment);
  const sets = [...ours.values()].flatMap((state) => state.sets);
  const allSets = new Set(resources.ListenerSet.map(nameKey));
  return {
    ours,
    all,
    parents: new Map<string, Parents>([
      ["Gateway", { ours: new Map([...ours].map(([name, { listeners }]) => [name, listeners])), all }],
      ["ListenerSet", { ours: new Map(sets.map(({ set, listeners }) => [nameKey(set), listeners])), all: allSets }],
    ]),
    problems: [...sorted.filter((gateway) => ownershipOf(gateway) === "unknown").map(unknownClass), ...problems],
  };
}

type ResolvedGateway = Omit<GatewayState, "listeners" | "sets" | "clientCertificate">;

/** Resolves all listeners together, and returns each to its owner. */
function* withListeners(
  gateways: readonly ResolvedGateway[],
  placed: readonly PlacedSet[],
  resources: ReadableResources,
  { isolatesGateways, reservedPorts }: Environment,
): Steps<ReadonlyMap<string, GatewayState>> {
  const ranks = new Map(placed.map(({ set }, index) => [set, index + 1]));
  const byGateway = Map.groupBy(placed, ({ gateway }) => gateway);
  const hosts = gateways.map(({ gateway, addresses }) => {
    const own = (byGateway.get(nameKey(gateway)) ?? []).filter(({ rejection }) => rejection === undefined);
    const sets = own.map(({ set }) => ({ set, rank: ranks.get(set) ?? 0 }));
    return { gateway, addresses, place: isolatesGateways ? nameKey(gateway) : "", sets };
  });
  const resolveClientCertificate = clientCertificateResolver(resources);
  const resolved = yield* resolveListeners(hosts, tlsResolver(resources), reservedPorts);
  const gatewayOf = ({ gateway }: ResolvedGateway) => gateway;
  const states = yield* eachObjectInSteps(gateways, gatewayOf, function* (state): Steps<[string, GatewayState]> {
    const { gateway } = state;
    const listenersOf = (owner: ListenerState["owner"]) =>
      owner.spec.listeners.flatMap(({ name }) => resolved.get(listenerKey(gateway, owner, name)) ?? []);
    const sets = yield* mapInSteps(byGateway.get(nameKey(gateway)) ?? [], (candidate) => ({
      ...candidate,
      listeners: candidate.rejection ? [] : listenersOf(candidate.set),
    }));
    const clientCertificate = resolveClientCertificate(gateway);
    return [nameKey(gateway), { ...state, clientCertificate, listeners: listenersOf(gateway), sets }];
  });
  return new Map(states);
}

function unknownClass(gateway: Gateway): ResourceProblem {
  const found = gateway.spec.gatewayClassName;
  const message = `GatewayClass "${found}" does not exist, accepted is "gateway-proxy"; this Gateway is ignored`;
  return resourceProblem(resourceKey(gateway), ["spec", "gatewayClassName"], message);
}

function resolveGateway(
  gateway: Gateway,
  gatewayClass: GatewayClass | undefined,
  environment: Environment,
): ResolvedGateway {
  const { infrastructure, addresses } = gateway.spec;
  const rejections: GatewayState["rejections"][number][] = [];
  if (gateway.spec.listeners.length === 0) rejections.push(rejectedByParser);
  if (gatewayClass !== undefined && parametersFinding(gatewayClass, environment).length > 0) {
    const message = `GatewayClass ${gatewayClass.metadata.name} is not accepted`;
    rejections.push({ reason: "InvalidParameters", message, path: ["spec", "gatewayClassName"] });
  }
  const fault = infrastructure?.parametersRef && environment.validateParameters(gateway);
  if (fault !== undefined) {
    const path = ["spec", "infrastructure", "parametersRef"];
    rejections.push({ reason: "InvalidParameters", message: fault, path });
  }
  const unusableAddresses: Finding<"AddressNotUsable">[] = [];
  const usable = new Set<string | undefined>();
  addresses.forEach(({ type, value }, index) => {
    const path = ["spec", "addresses", index];
    if (type !== "IPAddress") {
      const message = `address type ${type} is not supported, accepted is IPAddress`;
      rejections.push({ reason: "UnsupportedAddress", message, path: [...path, "type"] });
    } else if (value === undefined || value === "") {
      usable.add(environment.defaultAddress);
    } else if (isIP(value) === 0) {
      const message = `"${value}" is not an IP address`;
      unusableAddresses.push({ reason: "AddressNotUsable", message, path: [...path, "value"] });
    } else {
      usable.add(canonicalAddress(value));
    }
  });
  if (addresses.length === 0) usable.add(environment.defaultAddress);
  const sockets = environment.isolatesGateways && usable.size > 0 ? [environment.defaultAddress] : [...usable];
  return {
    gateway,
    addresses: rejections.length > 0 ? [] : sockets,
    rejections,
    unusableAddresses,
    unsupported: [...unsupportedFields(gateway), ...(environment.limitedInfrastructure?.(gateway) ?? [])],
  };
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
