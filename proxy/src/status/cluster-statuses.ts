/**
 * Statuses as the controller writes them: those of the translation, with the fields that are computed from the cluster.
 */
import type { GatewayClassStatus, GatewayStatus, PolicyStatus, Statuses } from "../api/status.ts";
import type { PolicySummary } from "./policy-summary.ts";
import type { NamespacedName } from "./rejected-object.ts";

/** An item of `Gateway.status.addresses` (Gateway API `GatewayStatusAddress`). */
export interface GatewayAddress {
  readonly type: "IPAddress" | "Hostname";
  readonly value: string;
}

/** The desired statuses of all objects of the cluster. */
export interface ClusterStatuses extends Omit<Statuses, "gatewayClasses" | "gateways" | "proxyPolicies"> {
  readonly gatewayClasses: readonly (GatewayClassStatus & {
    /** Sorted by name. */
    readonly supportedFeatures: readonly { readonly name: string }[];
  })[];
  readonly gateways: readonly (GatewayStatus & { readonly addresses: readonly GatewayAddress[] })[];
  readonly proxyPolicies: readonly (PolicyStatus & {
    readonly summary: PolicySummary;
    /** Names of the Secrets that the policy selects, sorted; absent without a selector. */
    readonly selectedSecrets?: readonly string[];
  })[];
  /** Objects without an owner. The controller removes its conditions from them. */
  readonly orphans: {
    /** Gateways of a GatewayClass that does not exist. */
    readonly Gateway: readonly NamespacedName[];
    /** ListenerSets of a Gateway that does not exist. */
    readonly ListenerSet: readonly NamespacedName[];
  };
  /**
   * Objects of another controller. Their status is removed if this controller has written it before, because the other
   * controller may never write one.
   */
  readonly foreign: {
    readonly Gateway: readonly NamespacedName[];
    readonly ListenerSet: readonly NamespacedName[];
  };
}
