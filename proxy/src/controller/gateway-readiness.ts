/** What the cluster says of a Gateway: where it can be reached, and whether a proxy is there to answer. Pure. */
import type { EndpointSlice } from "../api/endpoint-slice.ts";
import { serviceNameLabel } from "../api/endpoint-slice.ts";
import type { Gateway } from "../api/gateway.ts";
import type { Condition, GatewayStatus, ListenerSetStatus, ListenerStatus } from "../api/status.ts";
import { fieldsOf, type KubeObject, objectsOf } from "../kube/object.ts";
import type { GatewayAddress } from "../status/cluster-statuses.ts";

export interface GatewayReadiness {
  readonly addresses: readonly GatewayAddress[];
  /** Proxies that are ready. */
  readonly ready: number;
  /** Why its objects could not be made as they should be. */
  readonly fault: string | undefined;
}

/** What the API takes of them in a status. */
const mostAddresses = 16;

/** Reads a Gateway's Service and the slices behind it. */
export function readinessOf(
  service: KubeObject | undefined,
  slices: readonly EndpointSlice[],
  fault: string | undefined,
): GatewayReadiness {
  const { namespace, name } = fieldsOf(service?.["metadata"]);
  const own = slices.filter(
    (slice) => slice.metadata.labels[serviceNameLabel] === name && slice.metadata.namespace === namespace,
  );
  const ready = own.flatMap(({ endpoints }) => endpoints.filter(({ conditions }) => conditions.ready));
  const pods = [...new Set(ready.map(({ addresses }) => addresses[0] ?? ""))].sort();
  return { addresses: addressesOf(service, pods).slice(0, mostAddresses), ready: pods.length, fault };
}

function addressesOf(service: KubeObject | undefined, pods: readonly string[]): readonly GatewayAddress[] {
  const { spec, status } = service ?? {};
  const { type, clusterIP, clusterIPs = [clusterIP], externalIPs } = fieldsOf(spec);
  if (clusterIP === "None") return pods.map(ipAddress);
  if (type === "LoadBalancer") return ingressOf(status);
  const external = ipAddressesOf(externalIPs);
  return external.length > 0 ? external : ipAddressesOf(clusterIPs);
}

function ingressOf(status: unknown): readonly GatewayAddress[] {
  const { ingress } = fieldsOf(fieldsOf(status)["loadBalancer"]);
  return objectsOf(ingress).flatMap(({ ip, hostname }): readonly GatewayAddress[] => {
    if (typeof ip === "string" && ip !== "") return [ipAddress(ip)];
    return typeof hostname === "string" && hostname !== "" ? [{ type: "Hostname", value: hostname }] : [];
  });
}

function ipAddressesOf(values: unknown): readonly GatewayAddress[] {
  const isAddress = (value: unknown): value is string => typeof value === "string" && value !== "";
  return Array.isArray(values) ? values.filter(isAddress).map(ipAddress) : [];
}

function ipAddress(value: string): GatewayAddress {
  return { type: "IPAddress", value };
}

/** The status of translation, with Programmed only where requests are answered. */
export function withReadiness(
  status: GatewayStatus,
  gateway: Gateway,
  readiness: GatewayReadiness,
): GatewayStatus & { readonly addresses: readonly GatewayAddress[] } {
  const { addresses } = readiness;
  const obstacle = obstacleOf(gateway, readiness);
  if (obstacle === undefined) return { ...status, addresses };
  const conditions = unprogrammed(status.conditions, obstacle);
  return { ...status, conditions, listeners: status.listeners.map(pending), addresses };
}

/** Listeners of sets are served by the proxies of the Gateway. */
export function setWithReadiness(status: ListenerSetStatus, isGatewayReady: boolean): ListenerSetStatus {
  if (isGatewayReady) return status;
  const obstacle = { reason: "ParentNotProgrammed", message: "its Gateway is not programmed" } as const;
  const conditions = unprogrammed(status.conditions, obstacle);
  return { ...status, conditions, listeners: status.listeners.map(pending) };
}

interface Obstacle {
  readonly reason: "NoResources" | "AddressNotAssigned" | "AddressNotUsable";
  readonly message: string;
}

function obstacleOf(gateway: Gateway, { addresses, ready, fault }: GatewayReadiness): Obstacle | undefined {
  if (fault !== undefined) return { reason: "NoResources", message: fault };
  const asked = gateway.spec.addresses.flatMap(({ value }) => (value === undefined || value === "" ? [] : [value]));
  const missing = asked.filter((value) => !addresses.some((address) => address.value === value));
  if (missing.length > 0) {
    return { reason: "AddressNotUsable", message: `its Service was not given ${missing.join(", ")}` };
  }
  if (ready === 0) return { reason: "NoResources", message: "no proxy is ready yet" };
  if (addresses.length === 0) return { reason: "AddressNotAssigned", message: "its Service has no address yet" };
  return undefined;
}

function pending(listener: ListenerStatus): ListenerStatus {
  const obstacle = { reason: "Pending", message: "its Gateway is not programmed yet" } as const;
  return { ...listener, conditions: unprogrammed(listener.conditions, obstacle) };
}

/** Programmed as translation found it holds for the configuration; this is what the cluster says to it. */
function unprogrammed<C extends Condition>(
  conditions: readonly C[],
  obstacle: Pick<C, "reason" | "message">,
): readonly C[] {
  return conditions.map((condition) =>
    condition.type === "Programmed" && condition.status === "True"
      ? { ...condition, ...obstacle, status: "False" }
      : condition,
  );
}
