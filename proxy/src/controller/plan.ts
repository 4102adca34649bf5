/**
 * Computes the desired state from resources: the objects of each Gateway and, with the observed state, every status.
 * Pure. The translation is the same as in the proxies, so a status reports what they serve.
 */
import { objectKey } from "@gatewayproxy/runtime/object-key";
import { AddressGuard } from "@gatewayproxy/runtime/address-rules";
import { ownPorts, portsBeside } from "@gatewayproxy/runtime/operator-server-settings";
import type { Steps } from "@gatewayproxy/runtime/steps";
import type { Gateway } from "../api/gateway.ts";
import type { GatewayClass } from "../api/gateway-class.ts";
import type { RejectedResource } from "../api/rejected-resource.ts";
import type { NamedObject, ResourceSet } from "../api/resource.ts";
import {
  type GatewayClassCondition,
  type GatewayClassStatus,
  type GatewayStatus,
  isTrue,
  type ListenerStatus,
  type Statuses,
} from "../api/status.ts";
import type { KubeObject } from "../kube/object.ts";
import type { ClusterStatuses } from "../status/cluster-statuses.ts";
import { withPending } from "../status/pending-policies.ts";
import { policySummary } from "../status/policy-summary.ts";
import { withRejected } from "../status/rejected-resources.ts";
import { contained } from "../translate/containment.ts";
import type { AddressDenial } from "../translate/context.ts";
import { memoised } from "@gatewayproxy/runtime/memoised";
import type { ValidCredentials } from "../translate/tls/credentials.ts";
import { eachObjectInSteps } from "../translate/each-object.ts";
import { clusterEnvironment } from "../translate/environment.ts";
import { gatewayOwnership, ourClasses } from "../translate/gateway/gateway-classes.ts";
import { type AcceptedParents, acceptedParents } from "../translate/gateway/accepted-parents.ts";
import { gatewayScopes, type ScopeOf } from "../translate/gateway/gateway-scope.ts";
import { indexResources, prepareIndex } from "../translate/index/resource-index.ts";
import { maxReferencesOfNamespace } from "../translate/reference/owner-references.ts";
import { namedObjects, namedWithinBound } from "../translate/reference/references.ts";
import { selectedNames, selectorOf } from "../translate/reference/selected-secrets.ts";
import { translateInSteps } from "../translate/translate.ts";
import { type MaximumRights, maximumRights } from "./permitted-rights.ts";
import {
  type ObservedSet,
  persistenceCondition,
  readinessOf,
  setWithReadiness,
  withReadiness,
} from "./gateway-readiness.ts";
import { conflictWithClass } from "./provision/class-conflict.ts";
import {
  withoutKeysOfClass,
  unsupportedMetadata,
  selectedKeys,
  withoutSelectedLabels,
} from "./provision/infrastructure.ts";
import type { PlanInput } from "./plan-input.ts";
import { ownerKey, ownerOf } from "./provision/names.ts";
import type { OwnedObject } from "./provision/owned-object.ts";
import type { Parameters } from "./provision/parameter-keys.ts";
import { hasVolumes } from "./provision/persistence.ts";
import { parametersOf, refOf } from "./provision/parameters.ts";
import type { SuspendedRights, Provision, ProvisionErrors } from "./provision/provisioner.ts";
import { rolesOf } from "./provision/roles.ts";
import { type ListenerPort, type ProxyDefaults, type ManagedGateway, workloadOf } from "./provision/workload.ts";
import { supportedFeatures } from "./supported-features.ts";
import { withWithheldRights } from "./withheld.ts";

/** The result of `planFor`. */
export interface Plan {
  readonly statuses: Statuses;
  readonly provision: Provision;
  /** Every Gateway, by `namespace/name`. */
  readonly gateways: ReadonlyMap<string, Gateway>;
  /** The last valid credentials, for the next plan. */
  readonly credentials: ValidCredentials;
  /** Objects that are left out because their processing failed. */
  readonly culprits: readonly RejectedResource[];
}

/** Returns the Secrets and ConfigMaps that the controller watches: those to which resources refer, and parameters. */
export function* controllerObjects(
  resources: ResourceSet,
): Steps<{ readonly named: readonly NamedObject[]; readonly crowded: ReadonlySet<string> }> {
  const ownershipOf = gatewayOwnership(resources.GatewayClass);
  const gateways = resources.Gateway.filter((gateway) => ownershipOf(gateway) === "ours");
  const owners = [...ourClasses(resources.GatewayClass), ...gateways];
  const parameters = owners.flatMap((owner): NamedObject[] => {
    const ref = refOf(owner);
    if (ref?.namespace === undefined || ref.kind !== "ConfigMap" || ref.group !== "") return [];
    return [{ kind: "ConfigMap", namespace: ref.namespace, name: ref.name }];
  });
  const { named, crowded } = yield* namedWithinBound(resources);
  return { named: [...named, ...firstOfNamespaces(parameters)], crowded };
}

/** Returns the first objects of each namespace. Each is watched, and a namespace may have thousands of Gateways. */
function firstOfNamespaces(objects: readonly NamedObject[]): readonly NamedObject[] {
  const byNamespace = Map.groupBy(objects, ({ namespace }) => namespace);
  return [...byNamespace.values()].flatMap((own) => own.slice(0, maxReferencesOfNamespace));
}

/**
 * Computes the plan for a configuration. An object whose processing fails is left out, and its status reports that.
 * Runs in steps, because thousands of objects take seconds, in which the lease has to be renewed.
 *
 * @param before the credentials of the previous plan.
 */
export function* planFor(input: PlanInput, defaults: ProxyDefaults, before: ValidCredentials): Steps<Plan> {
  const { value: plan, culprits } = yield* contained(input.resources, (resources) =>
    planOf({ ...input, resources }, defaults, before),
  );
  if (culprits.length === 0) return plan;
  // The rights of a Gateway that is left out are unknown beyond its own namespace.
  const present = new Set(input.resources.Gateway.map(({ metadata }) => ownerKey(metadata)));
  const missing = input.resources.Gateway.filter(({ metadata }) => !plan.gateways.has(objectKey(metadata)));
  const suspended = new Map([
    ...plan.provision.suspended,
    ...missing.map(({ metadata }): [string, SuspendedRights] => [
      ownerKey(metadata),
      { kind: "unknown", mayRead: ({ namespace }) => namespace === metadata.namespace },
    ]),
  ]);
  return {
    ...plan,
    statuses: yield* withRejected(plan.statuses, culprits),
    provision: { ...plan.provision, present, suspended },
    culprits,
  };
}

function* planOf(
  { resources, rejected, unreadable, crowded }: PlanInput,
  defaults: ProxyDefaults,
  before: ValidCredentials,
): Steps<Plan> {
  const selected = selectedKeys(resources.Service);
  const limitedInfrastructure = (gateway: Gateway) => {
    const bounds = { selected: selected(gateway.metadata.namespace), ofClass: parametersOfClass(gateway, resources) };
    return unsupportedMetadata(gateway, bounds);
  };
  const { statuses: translated, credentials } = yield* translateInSteps(resources, {
    onlyStatuses: true,
    addressDenial: addressDenialOf(defaults),
    environment: clusterEnvironment({
      reservedPorts: reservedPortsOf(defaults),
      validateParameters: (owner) => parametersError(owner, resources, defaults),
      limitedInfrastructure,
    }),
    refusedPolicies: defaults.refusedPolicies,
    keepsCounters: (gateway) => hasVolumes(allParameters(gateway, resources)),
    unreadable,
    crowded,
    before,
  });
  const statuses = yield* withRejected(translated, rejected);
  const byName = new Map(resources.Gateway.map((gateway) => [objectKey(gateway.metadata), gateway]));
  const desired: Provision["desired"][number][] = [];
  const suspended = new Map<string, SuspendedRights>();
  const scopeOf = yield* gatewayScopes(resources);
  const accepted = acceptedParents(translated);
  const maximumRightsOf = maximumRights(resources, scopeOf);
  const input = translated.gateways.flatMap((status) => {
    const gateway = byName.get(objectKey(status));
    return gateway === undefined ? [] : [{ gateway, status }];
  });
  const gatewayOf = ({ gateway }: (typeof input)[number]) => gateway;
  const setsOf = listenerSetsByGateway(translated, resources);
  yield* eachObjectInSteps(input, gatewayOf, function* ({ gateway, status }) {
    const rights = yield* rightsOf(gateway, { status, scopeOf, accepted, maximumRightsOf }, defaults);
    const services = selected(gateway.metadata.namespace);
    const managed = managedGatewayOf(gateway, status, setsOf(gateway), resources, defaults, services);
    if (managed === undefined || rights.kind === "unknown") suspended.set(ownerKey(status), rights);
    else for (const object of [...rights.roles, ...workloadOf(managed)]) desired.push(object);
  });
  return {
    statuses,
    credentials,
    culprits: [],
    gateways: byName,
    provision: {
      desired,
      present: new Set(resources.Gateway.map(({ metadata }) => ownerKey(metadata))),
      suspended,
      terminating: terminatingNamespaces(resources),
    },
  };
}

function terminatingNamespaces({ Namespace }: ResourceSet): ReadonlySet<string> {
  return new Set(
    Namespace.flatMap(({ metadata }) => (metadata.deletionTimestamp === undefined ? [] : [metadata.name])),
  );
}

/** Returns the same function for the same settings, since what is resolved with it is kept. */
const addressDenialOf = memoised(({ allowedAddresses }: ProxyDefaults): AddressDenial => {
  const guard = new AddressGuard({ own: [], deniesSpecial: true, allowed: allowedAddresses });
  return (host, port) => guard.denialReasonOfHost(host, port);
});

/** Returns the ports that no listener of a proxy can use: its own, and those of the programs beside it. */
const reservedPortsOf = memoised(
  ({ allowedAddresses }: ProxyDefaults): ReadonlyMap<number, string> =>
    new Map([...portsBeside(allowedAddresses), ...ownPorts]),
);

/**
 * Returns the reason why the parameters of a Gateway or class cannot be used, in one sentence; undefined if they can.
 */
function parametersError(
  owner: Gateway | GatewayClass,
  resources: ResourceSet,
  { serviceType }: ProxyDefaults,
): string | undefined {
  const read = parametersOf(owner, resources.ConfigMap);
  if (read.kind === "invalid") return read.message;
  if (owner.kind === "GatewayClass") return undefined;
  const parameters = parametersOfClass(owner, resources);
  return conflictWithClass(read.parameters, { name: owner.spec.gatewayClassName, parameters, serviceType });
}

interface RightsContext {
  readonly status: GatewayStatus;
  readonly scopeOf: ScopeOf;
  /** The parentRefs that the translation has accepted. */
  readonly accepted: AcceptedParents;
  readonly maximumRightsOf: MaximumRights;
}

/** Returns the rights of the proxies of a Gateway. A Gateway that is not accepted may still have running proxies. */
function* rightsOf(
  gateway: Gateway,
  { status, scopeOf, accepted, maximumRightsOf }: RightsContext,
  defaults: ProxyDefaults,
): Steps<SuspendedRights> {
  const { uid } = gateway.metadata;
  const isKnown = gateway.spec.listeners.length > 0 && uid !== undefined;
  if (!isKnown) return { kind: "unknown", mayRead: yield* maximumRightsOf(gateway) };
  // The translation accepts no ListenerSet of a Gateway that is not accepted, but its proxies may still serve them.
  const acceptedParents = isTrue(status.conditions, "Accepted") ? accepted : undefined;
  const named = yield* namedObjects(yield* scopeOf(gateway.metadata, { accepted: acceptedParents }));
  return { kind: "known", roles: rolesOf({ gateway, uid, defaults }, named) };
}

/**
 * Returns the input for the workload of a Gateway. Undefined if the Gateway is not accepted or no listener can be
 * served yet. Then the current workload stays, and no proxies are created, because they would not become ready.
 */
function managedGatewayOf(
  gateway: Gateway,
  status: GatewayStatus,
  sets: readonly OwnedSet[],
  resources: ResourceSet,
  defaults: ProxyDefaults,
  selected: ReadonlySet<string>,
): ManagedGateway | undefined {
  const { uid } = gateway.metadata;
  if (!isTrue(status.conditions, "Accepted") || uid === undefined) return undefined;
  const all = [{ owner: gateway, listeners: status.listeners }, ...sets];
  if (!all.some(({ listeners }) => listeners.some((listener) => isTrue(listener.conditions, "Programmed")))) {
    return undefined;
  }
  const ports = all.flatMap(({ owner, listeners }) => acceptedPorts(owner, listeners));
  const distinct = new Map(ports.map((port) => [`${port.port}/${port.protocol}`, port]));
  const [ofClass, own] = allParameters(gateway, resources);
  return {
    gateway: withoutKeysOfClass(gateway, ofClass),
    uid,
    ports: [...distinct.values()].sort((a, b) => a.port - b.port || (a.protocol < b.protocol ? -1 : 1)),
    parameters: [ofClass, withoutSelectedLabels(own, selected)],
    selected,
    defaults,
  };
}

function classOf({ spec }: Gateway, { GatewayClass }: ResourceSet): GatewayClass | undefined {
  return GatewayClass.find(({ metadata }) => metadata.name === spec.gatewayClassName);
}

/**
 * Returns no parameters if the class has none. The parameters of a class that is not accepted do not matter, because
 * its Gateways are not accepted either.
 */
function parametersOfClass(gateway: Gateway, resources: ResourceSet): Parameters {
  const ofClass = classOf(gateway, resources);
  const read = ofClass && parametersOf(ofClass, resources.ConfigMap);
  return read?.kind === "parameters" ? read.parameters : {};
}

/** Returns the parameters of the class and of the Gateway. */
function allParameters(gateway: Gateway, resources: ResourceSet): readonly [ofClass: Parameters, own: Parameters] {
  const own = parametersOf(gateway, resources.ConfigMap);
  return [parametersOfClass(gateway, resources), own.kind === "parameters" ? own.parameters : {}];
}

/** A ListenerSet with the statuses of its listeners. */
interface OwnedSet {
  readonly owner: ResourceSet["ListenerSet"][number];
  readonly listeners: readonly ListenerStatus[];
}

/** Returns a function that looks up the ListenerSets of a Gateway, which may have thousands. */
function listenerSetsByGateway(
  { listenerSets }: Statuses,
  { ListenerSet }: ResourceSet,
): (gateway: Gateway) => readonly OwnedSet[] {
  const statuses = new Map(listenerSets.map((status) => [objectKey(status), status.listeners]));
  const byParent = Map.groupBy(ListenerSet, parentOf);
  return ({ metadata }) =>
    (byParent.get(objectKey(metadata)) ?? []).map((owner) => ({
      owner,
      listeners: statuses.get(objectKey(owner.metadata)) ?? [],
    }));
}

/**
 * Returns the ports of accepted listeners, including listeners whose certificate is missing, because it may be created
 * at any time, and listeners that are served in their previous valid version.
 */
function acceptedPorts(
  { spec }: Gateway | ResourceSet["ListenerSet"][number],
  statuses: readonly ListenerStatus[],
): readonly ListenerPort[] {
  return statuses.flatMap(({ name, conditions }) => {
    const listener = spec.listeners.find((each) => each.name === name);
    const isOpen = isTrue(conditions, "Accepted") || isTrue(conditions, "Programmed");
    if (!isOpen || listener === undefined) return [];
    return [{ port: listener.port, protocol: listener.protocol === "UDP" ? "UDP" : "TCP" }];
  });
}

/** The observed state of the cluster. */
export interface ObservedState {
  readonly resources: ResourceSet;
  /** Returns the Service of a Gateway in its current state. */
  readonly serviceOf: (gateway: Gateway) => KubeObject | undefined;
  /** Returns a workload of a Gateway in its current state. Default: none exists. */
  readonly workloadOf?: (object: Pick<OwnedObject, "kind" | "namespace" | "name">) => KubeObject | undefined;
  /**
   * False if Services cannot be read. Then the statuses of Gateways and ListenerSets stay, because their addresses are
   * unknown. Default: true.
   */
  readonly areServicesKnown?: boolean;
  readonly errors: ProvisionErrors;
  /** As `Provisioner.listError`. */
  readonly listError?: string | undefined;
  /** The condition `SupportedVersion` of classes; undefined: unknown. */
  readonly supportedVersion?: GatewayClassCondition | undefined;
  /** The features that the definitions of the cluster permit. Default: all that are supported. */
  readonly features?: readonly string[];
}

/** Returns the StatefulSets of Gateways whose proxies have volumes, by `ownerKey`. */
function setsOf(
  desired: readonly OwnedObject[],
  { workloadOf: currentOf = () => undefined }: ObservedState,
): ReadonlyMap<string, ObservedSet> {
  const sets = desired.filter(({ kind }) => kind === "StatefulSet");
  return new Map(
    sets.map((set) => {
      const { namespace, replaces } = set;
      const replaced = replaces && currentOf({ namespace, ...replaces });
      return [ownerOf(set.body), { desired: set, current: currentOf(set), replaced }];
    }),
  );
}

/** Computes every status to write. Runs in steps, because there may be thousands. */
export function* clusterStatuses(plan: Plan, observed: ObservedState): Steps<ClusterStatuses> {
  const { gateways } = plan;
  const { resources, areServicesKnown = true } = observed;
  const statuses = yield* withWithheldRights(plan.statuses, resources, observed.errors.withheld);
  const gatewayStatuses = yield* statusesOfGateways(statuses.gateways, plan, observed);
  const programmed = new Set(
    gatewayStatuses.flatMap((status) => (isTrue(status.conditions, "Programmed") ? [objectKey(status)] : [])),
  );
  const policies = new Map(resources.ProxyPolicy.map((policy) => [objectKey(policy.metadata), policy]));
  const parents = new Map(resources.ListenerSet.map((set) => [objectKey(set.metadata), parentOf(set)]));
  const listenerSets: ClusterStatuses["listenerSets"][number][] = [];
  for (const status of statuses.listenerSets) {
    listenerSets.push(setWithReadiness(status, programmed.has(parents.get(objectKey(status)) ?? "")));
    yield;
  }
  const proxyPolicies: ClusterStatuses["proxyPolicies"][number][] = [];
  for (const status of yield* withPending(statuses.proxyPolicies, {
    ...statuses,
    gateways: gatewayStatuses,
    listenerSets,
  })) {
    const policy = policies.get(objectKey(status));
    const selected =
      policy === undefined || selectorOf(policy) === undefined ? undefined : selectedNames(resources, policy, false);
    proxyPolicies.push({
      ...status,
      summary: policySummary(policy, status),
      ...(selected !== undefined && { selectedSecrets: selected }),
    });
    yield;
  }
  return {
    ...statuses,
    gatewayClasses: statuses.gatewayClasses.map((status) => ({
      ...withSupportedVersion(status, observed.supportedVersion),
      supportedFeatures: (observed.features ?? supportedFeatures).map((name) => ({ name })),
    })),
    gateways: areServicesKnown ? gatewayStatuses : [],
    proxyPolicies,
    listenerSets: areServicesKnown ? listenerSets : [],
    orphans: orphansOf(resources, gateways),
    foreign: foreignObjects(resources, gateways),
  };
}

function* statusesOfGateways(
  translated: Statuses["gateways"],
  { gateways, provision: { desired, suspended } }: Plan,
  observed: ObservedState,
): Steps<ClusterStatuses["gateways"]> {
  const sets = setsOf(desired, observed);
  yield* prepareIndex(observed.resources);
  const { slices } = indexResources(observed.resources);
  const statuses: ClusterStatuses["gateways"][number][] = [];
  for (const status of translated) {
    yield;
    const gateway = gateways.get(objectKey(status));
    if (gateway === undefined) continue;
    const owner = ownerKey(status);
    const errors = {
      ofGateway: suspended.has(owner) ? undefined : observed.errors.gateways.get(owner),
      ofController: observed.listError,
    };
    const set = sets.get(owner);
    const persistence = set === undefined ? [] : [persistenceCondition(gateway, set)];
    const conditions = [...status.conditions, ...persistence];
    const readiness = readinessOf(observed.serviceOf(gateway), slices, errors);
    statuses.push(withReadiness({ ...status, conditions }, gateway, readiness));
  }
  return statuses;
}

/** Adds the condition `SupportedVersion`, which is of the same generation as the others. */
function withSupportedVersion(status: GatewayClassStatus, supportedVersion: GatewayClassCondition | undefined) {
  if (supportedVersion === undefined) return status;
  const { observedGeneration } = status.conditions[0] ?? {};
  const condition = { ...supportedVersion, ...(observedGeneration !== undefined && { observedGeneration }) };
  return { ...status, conditions: [...status.conditions, condition] };
}

/**
 * Returns Gateways and ListenerSets that no controller owns.
 *
 * @param gateways all that exist, by `namespace/name`.
 */
function orphansOf(
  { GatewayClass, Gateway, ListenerSet }: ResourceSet,
  gateways: Plan["gateways"],
): ClusterStatuses["orphans"] {
  const ownershipOf = gatewayOwnership(GatewayClass);
  return {
    Gateway: Gateway.filter((gateway) => ownershipOf(gateway) === "unknown").map(({ metadata }) => metadata),
    ListenerSet: ListenerSet.filter((set) => !gateways.has(parentOf(set))).map(({ metadata }) => metadata),
  };
}

/** Returns Gateways whose class names another controller, and their ListenerSets. */
function foreignObjects(
  { GatewayClass, Gateway, ListenerSet }: ResourceSet,
  gateways: Plan["gateways"],
): ClusterStatuses["foreign"] {
  const ownershipOf = gatewayOwnership(GatewayClass);
  const isForeign = (gateway: Gateway | undefined) => gateway !== undefined && ownershipOf(gateway) === "foreign";
  return {
    Gateway: Gateway.filter(isForeign).map(({ metadata }) => metadata),
    ListenerSet: ListenerSet.filter((set) => isForeign(gateways.get(parentOf(set)))).map(({ metadata }) => metadata),
  };
}

/** Returns the `namespace/name` of the Gateway of a ListenerSet. */
function parentOf({ metadata, spec: { parentRef } }: ResourceSet["ListenerSet"][number]): string {
  return `${parentRef.namespace ?? metadata.namespace}/${parentRef.name}`;
}
