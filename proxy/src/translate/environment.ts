/** Where the Gateways of a translation live: all in one process, or each in pods of its own. */
import { ownPorts } from "@gatewayproxy/runtime/operator-server-settings";
import type { Gateway } from "../api/gateway.ts";
import type { GatewayClass } from "../api/gateway-class.ts";
import type { Finding } from "./finding.ts";

export interface Environment {
  /**
   * Each Gateway has pods of its own: they share no port, their proxies listen at every address of the pod, and what
   * `spec.addresses` names is their Service's.
   */
  readonly isolatesGateways: boolean;
  /** The IP address at which Gateways listen that name none; default: every address of the machine. */
  readonly defaultAddress?: string | undefined;
  /** What is wrong with the `parametersRef` of an object that has one, or of a class that is refused; else undefined. */
  readonly validateParameters: (owner: Gateway | GatewayClass) => string | undefined;
  /** Ports that no listener can have, with what is served there; default: none. */
  readonly reservedPorts?: ReadonlyMap<number, string>;
  /** What of a Gateway's infrastructure has less effect than it seems; default: nothing. */
  readonly limitedInfrastructure?: (gateway: Gateway) => readonly Finding<"Unsupported">[];
}

/**
 * Gateways share the process and listen where their addresses say, so a port may be free at one address and not at another:
 * that shows when it is opened. Nothing is there that parameters could shape.
 */
export const hostEnvironment: Environment = {
  isolatesGateways: false,
  validateParameters: (owner) =>
    isRejectedClass(owner) ? rejectedClassMessage : `parameters of a ${owner.kind} are not served by this version`,
};

/** Gateways in pods, which listen at every address, so that their own ports are taken. Only who provisions the pods can judge parameters; to everybody else they are good. */
export function clusterEnvironment(judges: Partial<Omit<Environment, "isolatesGateways">> = {}): Environment {
  return { isolatesGateways: true, reservedPorts: ownPorts, validateParameters: () => undefined, ...judges };
}

/** What a class that is refused says of parameters is not known. */
export function isRejectedClass(owner: Gateway | GatewayClass): boolean {
  return owner.kind === "GatewayClass" && owner.spec.isRejected === true;
}

export const rejectedClassMessage = "this version is refused and no sound one is known";
