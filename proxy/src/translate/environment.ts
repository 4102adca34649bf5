/** Where the Gateways of a translation live: all in one process, or each in pods of its own. */
import type { Gateway } from "../api/gateway.ts";
import type { GatewayClass } from "../api/gateway-class.ts";

export interface Environment {
  /**
   * Each Gateway has pods of its own: they share no port, their proxies listen at every address of the pod, and what
   * `spec.addresses` names is their Service's.
   */
  readonly isolatesGateways: boolean;
  /** What is wrong with the `parametersRef` of an object that has one, or of a class that is refused; else undefined. */
  readonly judgeParameters: (owner: Gateway | GatewayClass) => string | undefined;
}

/** Gateways share the process and listen where their addresses say; nothing is there that parameters could shape. */
export const hostEnvironment: Environment = {
  isolatesGateways: false,
  judgeParameters: (owner) =>
    isRefusedClass(owner) ? refusedClassMessage : `parameters of a ${owner.kind} are not served by this version`,
};

/** Gateways in pods. Only who provisions the pods can judge parameters; to everybody else they are good. */
export function clusterEnvironment(judgeParameters: Environment["judgeParameters"] = () => undefined): Environment {
  return { isolatesGateways: true, judgeParameters };
}

/** What a class that is refused says of parameters is not known. */
export function isRefusedClass(owner: Gateway | GatewayClass): boolean {
  return owner.kind === "GatewayClass" && owner.spec.isRefused === true;
}

export const refusedClassMessage = "this version is refused and no sound one is known";
