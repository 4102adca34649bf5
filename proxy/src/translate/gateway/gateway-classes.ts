/** Which Gateways this controller implements: those with a class that names it. */
import type { Gateway } from "../../api/gateway.ts";
import type { GatewayClass } from "../../api/gateway-class.ts";
import { controllerName, gatewayClassName } from "../../api/names.ts";
import type { GatewayClassStatus } from "../../api/status.ts";
import { type Environment, isRejectedClass } from "../environment.ts";
import { conditionFrom } from "../status/finding.ts";
import type { FindingOf } from "../status/findings-table.ts";
import { compareText } from "../index/object-names.ts";

/** Whether this controller implements a Gateway, by its class. */
export type Ownership =
  | "ours"
  /** Another controller implements it. */
  | "foreign"
  /** Its class does not exist, which is most likely an error. */
  | "unknown";

/**
 * Returns the ownership of a Gateway. The class `gateway-proxy` needs no resource, unless one names another controller.
 */
export function gatewayOwnership(classes: readonly GatewayClass[]): (gateway: Gateway) => Ownership {
  const controllers = new Map(classes.map(({ metadata, spec }) => [metadata.name, spec.controllerName]));
  return ({ spec }) => {
    const controller = controllers.get(spec.gatewayClassName);
    if (controller !== undefined) return controller === controllerName ? "ours" : "foreign";
    return spec.gatewayClassName === gatewayClassName ? "ours" : "unknown";
  };
}

/** Returns why a class is not accepted: its parameters are invalid or unknown. */
export function classFindings(
  gatewayClass: GatewayClass,
  { validateParameters }: Environment,
): readonly FindingOf<"GatewayClass">[] {
  const isRejected = isRejectedClass(gatewayClass);
  if (gatewayClass.spec.parametersRef === undefined && !isRejected) return [];
  const message = validateParameters(gatewayClass);
  if (message === undefined) return [];
  return [{ reason: "InvalidParameters", message, path: isRejected ? ["spec"] : ["spec", "parametersRef"] }];
}

/** Returns the statuses of the classes of this controller. */
export function gatewayClassStatuses(
  classes: readonly GatewayClass[],
  environment: Environment,
): readonly GatewayClassStatus[] {
  return ourClasses(classes).map((gatewayClass) => {
    const { name, generation } = gatewayClass.metadata;
    const healthy = { type: "Accepted", reason: "Accepted", message: "class is served" } as const;
    return { name, conditions: [conditionFrom(healthy, classFindings(gatewayClass, environment), generation)] };
  });
}

/** Returns the classes of this controller, sorted by name. */
export function ourClasses(classes: readonly GatewayClass[]): readonly GatewayClass[] {
  return classes
    .filter(({ spec }) => spec.controllerName === controllerName)
    .sort((a, b) => compareText(a.metadata.name, b.metadata.name));
}
