/** Where the Gateways of a translation run: all in one process, or each in its own pods. */
import { ownPorts } from "@gatewayproxy/runtime/operator-server-settings";
import type { Gateway } from "../api/gateway.ts";
import type { GatewayClass } from "../api/gateway-class.ts";
import type { Finding } from "./status/finding.ts";

/** The properties of the processes that serve the Gateways. */
export interface Environment {
  /**
   * Each Gateway has its own pods. They share no port, their proxies listen at every address of the pod, and the
   * Service has the addresses in `spec.addresses`.
   */
  readonly isolatesGateways: boolean;
  /** The IP address of Gateways without `spec.addresses`. Default: every address of the machine. */
  readonly defaultAddress?: string | undefined;
  /** Returns the error of the `parametersRef` of an object, or of an invalid class; undefined if there is none. */
  readonly validateParameters: (owner: Gateway | GatewayClass) => string | undefined;
  /** Ports that no listener can have, with their use. Default: none. */
  readonly reservedPorts?: ReadonlyMap<number, string>;
  /** Returns the fields of a Gateway's `infrastructure` with less effect than expected. Default: none. */
  readonly limitedInfrastructure?: (gateway: Gateway) => readonly Finding<"Unsupported">[];
}

/**
 * Gateways share the process and listen at their addresses, so a port may be free at one address and not at another,
 * which is known when it is opened. There is nothing that parameters could configure.
 */
export const hostEnvironment: Environment = {
  isolatesGateways: false,
  validateParameters: (owner) =>
    isRejectedClass(owner) ? rejectedClassMessage : `parameters of a ${owner.kind} are not supported in file mode`,
};

/**
 * Gateways in pods, which listen at every address, so that the proxy's own ports are in use. Only the component that
 * creates the pods can validate parameters; for others they are valid.
 */
export function clusterEnvironment(overrides: Partial<Omit<Environment, "isolatesGateways">> = {}): Environment {
  return { isolatesGateways: true, reservedPorts: ownPorts, validateParameters: () => undefined, ...overrides };
}

/** Whether a class was rejected by the parser, so that its parameters are unknown. */
export function isRejectedClass(owner: Gateway | GatewayClass): boolean {
  return owner.kind === "GatewayClass" && owner.spec.isRejected === true;
}

/** The message for a GatewayClass that the parser rejected. */
export const rejectedClassMessage = "the current version is invalid, and no valid version is known";
