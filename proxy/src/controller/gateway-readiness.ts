/**
 * Computes the addresses of a Gateway, whether a proxy is ready to serve it, and whether its proxies keep their
 * counters, from the state of the cluster. Pure.
 */
import type { EndpointSlice } from "../api/endpoint-slice.ts";
import type { Gateway } from "../api/gateway.ts";
import type { Condition, GatewayCondition, GatewayStatus, ListenerSetStatus, ListenerStatus } from "../api/status.ts";
import { objectKey } from "@gatewayproxy/runtime/object-key";
import { fieldsOf, type KubeObject, objectsOf, textOf } from "../kube/object.ts";
import type { GatewayAddress } from "../status/cluster-statuses.ts";
import { observed } from "../translate/status/finding.ts";
import type { OwnedObject } from "./provision/owned-object.ts";
import { availablePods, unchangeableMessage } from "./provision/workload-change.ts";

/** The state of a Gateway's workload. */
export interface GatewayReadiness {
  /** Addresses for `status.addresses`, at most 16. */
  readonly addresses: readonly GatewayAddress[];
  /** The number of proxies that are ready. */
  readonly ready: number;
  /** The reason why objects of the workload could not be created or changed; undefined if there is none. */
  readonly error: string | undefined;
}

/** Why a workload is not as desired, each in one sentence; undefined: no such reason. */
export interface WorkloadErrors {
  /** Its objects could not be created or changed. */
  readonly ofGateway: string | undefined;
  /** The controller cannot read the objects of all Gateways. It is no error of a Gateway whose proxies are ready. */
  readonly ofController: string | undefined;
}

/** The maximum of `GatewayStatus.addresses` in the CRD. */
const maxAddresses = 16;

/**
 * The maximum of ready proxies that are counted: EndpointSlices that a user has written may have more endpoints than
 * there are pods.
 */
const maxPods = 1_000;

/**
 * Returns the readiness of a Gateway, from its Service and the EndpointSlices of the Service.
 *
 * @param slices of all Services, by `namespace/name`.
 */
export function readinessOf(
  service: KubeObject | undefined,
  slices: ReadonlyMap<string, readonly EndpointSlice[]>,
  { ofGateway, ofController }: WorkloadErrors,
): GatewayReadiness {
  const { namespace, name } = fieldsOf(service?.["metadata"]);
  const pods = readyPods(slices.get(objectKey({ namespace: textOf(namespace), name: textOf(name) })) ?? []);
  const error = ofGateway ?? (pods.length === 0 ? ofController : undefined);
  return { addresses: addressesOf(service, pods).slice(0, maxAddresses), ready: pods.length, error };
}

/** Returns the addresses of ready pods, each once, sorted. */
function readyPods(slices: readonly EndpointSlice[]): readonly string[] {
  const hosts = new Set<string>();
  for (const { endpoints } of slices) {
    for (const { state, host } of endpoints) {
      if (state === "ready" && hosts.size < maxPods) hosts.add(host);
    }
  }
  return [...hosts].sort();
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

/** Returns the status of the translation, with `Programmed` set to False unless a proxy serves the Gateway. */
export function withReadiness(
  status: GatewayStatus,
  gateway: Gateway,
  readiness: GatewayReadiness,
): GatewayStatus & { readonly addresses: readonly GatewayAddress[] } {
  const { addresses } = readiness;
  const obstacle = obstacleOf(gateway, readiness);
  if (obstacle === undefined) return { ...status, addresses };
  const conditions = withoutProgrammed(status.conditions, obstacle);
  return { ...status, conditions, listeners: status.listeners.map(withPendingListener), addresses };
}

/** The StatefulSet of a Gateway whose proxies have volumes. */
export interface ObservedSet {
  readonly desired: OwnedObject;
  /** Undefined if it does not exist. */
  readonly current: KubeObject | undefined;
  /** The Deployment that it replaces; undefined if it does not exist any more. */
  readonly replaced: KubeObject | undefined;
}

/** Returns the condition of a Gateway whose proxies have volumes. */
export function persistenceCondition(
  { metadata }: Gateway,
  { desired, current, replaced }: ObservedSet,
): GatewayCondition {
  const type = "PersistentCounters";
  const generation = observed(metadata.generation);
  const available = availablePods(current);
  if (available === 0 || replaced !== undefined) {
    const waiting = replaced === undefined ? "" : "; proxies without volumes serve until all with volumes do";
    const message = `${available} ${available === 1 ? "proxy with a volume is" : "proxies with volumes are"} ready${waiting}`;
    return { type, status: "False", reason: "Pending", message, ...generation };
  }
  const unchanged = unchangeableMessage(desired, current);
  if (unchanged !== undefined) {
    return { type, status: "True", reason: "VolumesUnchanged", message: unchanged, ...generation };
  }
  const message = "each proxy keeps the counters of long windows on a volume";
  return { type, status: "True", reason: "Persistent", message, ...generation };
}

/** Returns the status of a ListenerSet, with `Programmed` set to False unless a proxy serves its Gateway. */
export function setWithReadiness(status: ListenerSetStatus, isGatewayReady: boolean): ListenerSetStatus {
  if (isGatewayReady) return status;
  const obstacle = { reason: "ParentNotProgrammed", message: "the parent Gateway is not programmed" } as const;
  const conditions = withoutProgrammed(status.conditions, obstacle);
  return { ...status, conditions, listeners: status.listeners.map(withPendingListener) };
}

interface Obstacle {
  readonly reason: "NoResources" | "AddressNotAssigned" | "AddressNotUsable";
  readonly message: string;
}

function obstacleOf(gateway: Gateway, { addresses, ready, error }: GatewayReadiness): Obstacle | undefined {
  if (error !== undefined) return { reason: "NoResources", message: error };
  const requested = gateway.spec.addresses.flatMap(({ value }) => (value === undefined || value === "" ? [] : [value]));
  const missing = requested.filter((value) => !addresses.some((address) => address.value === value));
  if (missing.length > 0) {
    return {
      reason: "AddressNotUsable",
      message: `the Service of the Gateway was not assigned the requested addresses ${missing.join(", ")}`,
    };
  }
  if (ready === 0) return { reason: "NoResources", message: "no proxy of the Gateway is ready yet" };
  if (addresses.length === 0) {
    return { reason: "AddressNotAssigned", message: "the Service of the Gateway has no address yet" };
  }
  return undefined;
}

function withPendingListener(listener: ListenerStatus): ListenerStatus {
  const obstacle = { reason: "Pending", message: "the Gateway is not programmed yet" } as const;
  return { ...listener, conditions: withoutProgrammed(listener.conditions, obstacle) };
}

/** Sets `Programmed` to False if the translation set it to True. Another reason of the translation is kept. */
function withoutProgrammed<C extends Condition>(
  conditions: readonly C[],
  obstacle: Pick<C, "reason" | "message">,
): readonly C[] {
  return conditions.map((condition) =>
    condition.type === "Programmed" && condition.status === "True"
      ? { ...condition, ...obstacle, status: "False" }
      : condition,
  );
}
