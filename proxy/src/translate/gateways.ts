/** Judges the Gateways that are ours: their addresses, their parameters, and through `listeners.ts` their listeners. */
import { isIP, SocketAddress } from "node:net";
import type { Gateway } from "../api/gateway.ts";
import type { GatewayClass } from "../api/gateway-class.ts";
import type { ResourceSet } from "../api/resource.ts";
import { resourceKey } from "../api/resource.ts";
import { type ResourceProblem, resourceProblem } from "../api/resource-problem.ts";
import type { Finding } from "./finding.ts";
import { gatewayOwnership, parametersFinding } from "./gateway-classes.ts";
import { judgeListeners, type ListenerState } from "./listeners.ts";
import { nameKey, sortByName } from "./object-names.ts";

export interface GatewayState {
  readonly gateway: Gateway;
  /** Socket addresses to listen at; undefined stands for the process's own. Empty when refused or none is usable. */
  readonly addresses: readonly (string | undefined)[];
  /** Why nothing of it is served; empty when accepted. */
  readonly refusals: readonly Finding<"UnsupportedAddress" | "InvalidParameters">[];
  readonly unusableAddresses: readonly Finding<"AddressNotUsable">[];
  /** Fields that it sets and we do not act on. */
  readonly unserved: readonly Finding<"Unserved">[];
  readonly listeners: readonly ListenerState[];
}

export interface JudgedGateways {
  /** Ours, sorted by namespace and name; keys are `namespace/name`. */
  readonly ours: ReadonlyMap<string, GatewayState>;
  /** Every Gateway that exists, ours or not. */
  readonly all: ReadonlyMap<string, Gateway>;
  readonly problems: readonly ResourceProblem[];
}

export function judgeGateways(resources: ResourceSet): JudgedGateways {
  const ownershipOf = gatewayOwnership(resources.GatewayClass);
  const classes = new Map(resources.GatewayClass.map((gatewayClass) => [gatewayClass.metadata.name, gatewayClass]));
  const sorted = sortByName(resources.Gateway);
  const judged = sorted
    .filter((gateway) => ownershipOf(gateway) === "ours")
    .map((gateway) => judgeGateway(gateway, classes.get(gateway.spec.gatewayClassName)));
  const listeners = judgeListeners(judged);
  const ours = judged.map((state): [string, GatewayState] => {
    const key = nameKey(state.gateway);
    const own = state.gateway.spec.listeners.flatMap(({ name }) => listeners.get(`${key}/${name}`) ?? []);
    return [key, { ...state, listeners: own }];
  });
  const problems = sorted.filter((gateway) => ownershipOf(gateway) === "unknown").map(unknownClass);
  return { ours: new Map(ours), all: new Map(sorted.map((gateway) => [nameKey(gateway), gateway])), problems };
}

function unknownClass(gateway: Gateway): ResourceProblem {
  const found = gateway.spec.gatewayClassName;
  const message = `no GatewayClass "${found}" is known, ours is "gateway-proxy"; this Gateway is ignored`;
  return resourceProblem(resourceKey(gateway), ["spec", "gatewayClassName"], message);
}

function judgeGateway(gateway: Gateway, gatewayClass: GatewayClass | undefined): Omit<GatewayState, "listeners"> {
  const { infrastructure, addresses } = gateway.spec;
  const refusals: Finding<"UnsupportedAddress" | "InvalidParameters">[] = [];
  if (gatewayClass !== undefined && parametersFinding(gatewayClass).length > 0) {
    const message = `GatewayClass ${gatewayClass.metadata.name} is not accepted`;
    refusals.push({ reason: "InvalidParameters", message, path: ["spec", "gatewayClassName"] });
  }
  if (infrastructure?.parametersRef !== undefined) {
    const path = ["spec", "infrastructure", "parametersRef"];
    refusals.push({
      reason: "InvalidParameters",
      message: "parameters of a Gateway are not served by this version",
      path,
    });
  }
  const unusableAddresses: Finding<"AddressNotUsable">[] = [];
  const usable = new Set<string | undefined>();
  addresses.forEach(({ type, value }, index) => {
    const path = ["spec", "addresses", index];
    if (type !== "IPAddress") {
      const message = `address type ${type} is not supported, accepted is IPAddress`;
      refusals.push({ reason: "UnsupportedAddress", message, path: [...path, "type"] });
    } else if (value === undefined || value === "") {
      usable.add(undefined);
    } else if (isIP(value) === 0) {
      const message = `"${value}" is no IP address`;
      unusableAddresses.push({ reason: "AddressNotUsable", message, path: [...path, "value"] });
    } else {
      usable.add(canonicalAddress(value));
    }
  });
  if (addresses.length === 0) usable.add(undefined);
  return {
    gateway,
    addresses: refusals.length > 0 ? [] : [...usable],
    refusals,
    unusableAddresses,
    unserved: unservedFields(gateway),
  };
}

/** One text for one address: `0:0:0:0:0:0:0:1` and `::1` are the same socket. */
function canonicalAddress(address: string): string {
  // A zone (`fe80::1%eth0`) would be lost.
  if (isIP(address) !== 6 || address.includes("%")) return address;
  return new SocketAddress({ address, family: "ipv6" }).address;
}

/** Fields that are read and not acted on yet; said aloud, because a reader of the manifest would think they were. */
function unservedFields({ spec }: Gateway): readonly Finding<"Unserved">[] {
  const unserved: Finding<"Unserved">[] = [];
  const add = (...path: string[]) => {
    const field = ["spec", ...path];
    unserved.push({ reason: "Unserved", message: `${field.join(".")} is not served by this version`, path: field });
  };
  if (spec.tls?.backend?.clientCertificateRef !== undefined) add("tls", "backend");
  if (spec.tls?.frontend !== undefined) add("tls", "frontend");
  if ((spec.allowedListeners?.namespaces?.from ?? "None") !== "None") add("allowedListeners");
  if ((spec.defaultScope ?? "None") !== "None") add("defaultScope");
  return unserved;
}
