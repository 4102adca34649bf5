/** Statuses as a controller writes them: what translation found, and what only the cluster can tell. */
import type { GatewayClassStatus, GatewayStatus, PolicyStatus, Statuses } from "../api/status.ts";
import type { PolicySummary } from "./policy-summary.ts";
import type { Named } from "./rejected-object.ts";

export interface GatewayAddress {
  readonly type: "IPAddress" | "Hostname";
  readonly value: string;
}

export interface ClusterStatuses extends Omit<Statuses, "gatewayClasses" | "gateways" | "proxyPolicies"> {
  readonly gatewayClasses: readonly (GatewayClassStatus & {
    /** Sorted by name. */
    readonly supportedFeatures: readonly { readonly name: string }[];
  })[];
  readonly gateways: readonly (GatewayStatus & { readonly addresses: readonly GatewayAddress[] })[];
  readonly proxyPolicies: readonly (PolicyStatus & { readonly summary: PolicySummary })[];
  /** Objects that are nobody's to judge any more: what they were told last holds no longer. */
  readonly orphans: {
    /** Of a class that does not exist. */
    readonly Gateway: readonly Named[];
    /** Of a Gateway that does not exist. */
    readonly ListenerSet: readonly Named[];
  };
}
