/**
 * From resources to what is to be: the objects of each Gateway and, once they are seen, every status. Pure; the
 * translation is the proxies' own, so what a status says is what they serve.
 */
import { AddressGuard } from "@gatewayproxy/runtime/address-rules";
import type { Steps } from "@gatewayproxy/runtime/steps";
import type { Gateway } from "../api/gateway.ts";
import type { GatewayClass } from "../api/gateway-class.ts";
import type { RejectedResource } from "../api/rejected-resource.ts";
import type { NamedObject, ResourceSet } from "../api/resource.ts";
import type { Condition, GatewayStatus, ListenerStatus, Statuses } from "../api/status.ts";
import type { KubeObject } from "../kube/object.ts";
import type { KubernetesConfiguration } from "../source/kubernetes/kubernetes-source.ts";
import type { ClusterStatuses } from "../status/cluster-statuses.ts";
import { withPending } from "../status/pending-policies.ts";
import { policySummary } from "../status/policy-summary.ts";
import { withRejected } from "../status/rejected-resources.ts";
import { contained } from "../translate/containment.ts";
import type { SoundCredentials } from "../translate/credentials.ts";
import { eachObjectInSteps } from "../translate/each-object.ts";
import { clusterEnvironment } from "../translate/environment.ts";
import { gatewayOwnership, ourClasses } from "../translate/gateway-classes.ts";
import { gatewayScopes, type ScopeOf } from "../translate/gateway-scope.ts";
import { namedObjects } from "../translate/references.ts";
import { translateInSteps } from "../translate/translate.ts";
import { type MostRights, mostRights } from "./permitted-rights.ts";
import { readinessOf, setWithReadiness, withReadiness } from "./gateway-readiness.ts";
import { conflictWithClass } from "./provision/class-conflict.ts";
import { besideClass, limitedMetadata, selectedKeys, withoutSelectedLabels } from "./provision/infrastructure.ts";
import { ownerKey } from "./provision/names.ts";
import type { Parameters } from "./provision/parameter-keys.ts";
import { parametersOf, refOf } from "./provision/parameters.ts";
import type { FrozenRights, Provision, ProvisionFaults } from "./provision/provisioner.ts";
import { rolesOf } from "./provision/roles.ts";
import { type ProxyDefaults, type Tenant, workloadOf } from "./provision/workload.ts";
import { supportedFeatures } from "./supported-features.ts";
import { withWithheld } from "./withheld.ts";

export interface Plan {
  readonly statuses: Statuses;
  readonly provision: Provision;
  /** Every Gateway by `namespace/name`. */
  readonly gateways: ReadonlyMap<string, Gateway>;
  /** For the next plan. */
  readonly credentials: SoundCredentials;
  /** Objects that could not be planned with. */
  readonly culprits: readonly RejectedResource[];
}

/** What a controller reads of Secrets and ConfigMaps: what resources name, and parameters. */
export function* controllerObjects(resources: ResourceSet): Steps<readonly NamedObject[]> {
  const ownershipOf = gatewayOwnership(resources.GatewayClass);
  const gateways = resources.Gateway.filter((gateway) => ownershipOf(gateway) === "ours");
  const owners = [...ourClasses(resources.GatewayClass), ...gateways];
  const parameters = owners.flatMap((owner): NamedObject[] => {
    const ref = refOf(owner);
    if (ref?.namespace === undefined || ref.kind !== "ConfigMap" || ref.group !== "") return [];
    return [{ kind: "ConfigMap", namespace: ref.namespace, name: ref.name }];
  });
  return [...(yield* namedObjects(resources)), ...parameters];
}

type Known = Pick<KubernetesConfiguration, "resources" | "rejected" | "unreadable">;

/**
 * Never throws for an object: one that cannot be planned with is left out, and its status says so. In steps, since thousands
 * of objects take seconds, in which the lease has to be renewed.
 *
 * @param before what the last plan knew of credentials.
 */
export function* planFor(known: Known, defaults: ProxyDefaults, before: SoundCredentials): Steps<Plan> {
  const { value: plan, culprits } = yield* contained(known.resources, (resources) =>
    planOf({ ...known, resources }, defaults, before),
  );
  if (culprits.length === 0) return plan;
  // What permits a Gateway that cannot be planned with to read more than its own namespace is not known.
  const present = new Set(known.resources.Gateway.map(({ metadata }) => ownerKey(metadata)));
  const missing = known.resources.Gateway.filter(({ metadata }) => !plan.gateways.has(keyOf(metadata)));
  const frozen = new Map([
    ...plan.provision.frozen,
    ...missing.map(({ metadata }): [string, FrozenRights] => [
      ownerKey(metadata),
      { kind: "unknown", mayRead: ({ namespace }) => namespace === metadata.namespace },
    ]),
  ]);
  return {
    ...plan,
    statuses: withRejected(plan.statuses, culprits),
    provision: { ...plan.provision, present, frozen },
    culprits,
  };
}

function* planOf(
  { resources, rejected, unreadable }: Known,
  defaults: ProxyDefaults,
  before: SoundCredentials,
): Steps<Plan> {
  const judgeParameters = (owner: Gateway | GatewayClass) => {
    const read = parametersOf(owner, resources.ConfigMap);
    if (read.kind === "fault") return read.message;
    if (owner.kind === "GatewayClass") return undefined;
    const parameters = parametersOfClass(owner, resources);
    const { gatewayClassName: name } = owner.spec;
    return conflictWithClass(read.parameters, { name, parameters, serviceType: defaults.serviceType });
  };
  const selected = selectedKeys(resources.Service);
  const limitedInfrastructure = (gateway: Gateway) =>
    limitedMetadata(gateway, {
      selected: selected(gateway.metadata.namespace),
      ofClass: parametersOfClass(gateway, resources),
    });
  const addresses = new AddressGuard({ own: [], refusesSpecial: true, allowed: defaults.allowedAddresses });
  const { statuses: judged, credentials } = yield* translateInSteps(resources, {
    onlyStatuses: true,
    refuseAddress: (host, port) => addresses.refusalOfHost(host, port),
    environment: clusterEnvironment({ judgeParameters, limitedInfrastructure }),
    refusedPolicies: defaults.refusedPolicies,
    unreadable,
    before,
  });
  const statuses = withRejected(judged, rejected);
  const byName = new Map(resources.Gateway.map((gateway) => [keyOf(gateway.metadata), gateway]));
  const wanted: Provision["wanted"][number][] = [];
  const frozen = new Map<string, FrozenRights>();
  const scopeOf = yield* gatewayScopes(resources);
  const mostOf = mostRights(resources, scopeOf);
  const known = judged.gateways.flatMap((status) => {
    const gateway = byName.get(keyOf(status));
    return gateway === undefined ? [] : [{ gateway, status }];
  });
  const gatewayOf = ({ gateway }: (typeof known)[number]) => gateway;
  yield* eachObjectInSteps(known, gatewayOf, function* ({ gateway, status }) {
    const rights = yield* rightsOf(gateway, scopeOf, mostOf, defaults);
    const tenant = tenantOf(gateway, status, judged, resources, defaults, selected(gateway.metadata.namespace));
    if (tenant === undefined || rights.kind === "unknown") frozen.set(ownerKey(status), rights);
    else for (const object of [...rights.roles, ...workloadOf(tenant)]) wanted.push(object);
  });
  return {
    statuses,
    credentials,
    culprits: [],
    gateways: byName,
    provision: { wanted, present: new Set(resources.Gateway.map(({ metadata }) => ownerKey(metadata))), frozen },
  };
}

/** What the proxies of a Gateway may read, whether or not the Gateway is accepted: they may run since it was. */
function* rightsOf(
  gateway: Gateway,
  scopeOf: ScopeOf,
  mostOf: MostRights,
  defaults: ProxyDefaults,
): Steps<FrozenRights> {
  const { uid } = gateway.metadata;
  const isKnown = gateway.spec.listeners.length > 0 && uid !== undefined;
  if (!isKnown) return { kind: "unknown", mayRead: yield* mostOf(gateway) };
  const named = yield* namedObjects(yield* scopeOf(gateway.metadata));
  return { kind: "known", roles: rolesOf({ gateway, uid, defaults }, named) };
}

/**
 * Undefined where the Gateway is refused, or none of its listeners can be served yet: then what runs is left as it is,
 * and proxies that would not become ready are not made.
 */
function tenantOf(
  gateway: Gateway,
  status: GatewayStatus,
  { listenerSets }: Statuses,
  resources: ResourceSet,
  defaults: ProxyDefaults,
  selected: ReadonlySet<string>,
): Tenant | undefined {
  const { uid } = gateway.metadata;
  if (!holds(status.conditions, "Accepted") || uid === undefined) return undefined;
  const sets = setsOf(gateway, resources);
  const own = { owner: gateway, listeners: status.listeners };
  const ofSets = sets.map((owner) => ({
    owner,
    listeners: listenerSets.find((each) => keyOf(each) === keyOf(owner.metadata))?.listeners ?? [],
  }));
  const all = [own, ...ofSets];
  if (!all.some(({ listeners }) => listeners.some((listener) => holds(listener.conditions, "Programmed"))))
    return undefined;
  const ports = new Set(all.flatMap(({ owner, listeners }) => acceptedPorts(owner, listeners)));
  const ofClass = parametersOfClass(gateway, resources);
  const read = parametersOf(gateway, resources.ConfigMap);
  const ownParameters = read.kind === "parameters" ? withoutSelectedLabels(read.parameters, selected) : {};
  return {
    gateway: besideClass(gateway, ofClass),
    uid,
    ports: [...ports].sort((a, b) => a - b),
    parameters: [ofClass, ownParameters],
    selected,
    defaults,
  };
}

function classOf({ spec }: Gateway, { GatewayClass }: ResourceSet): GatewayClass | undefined {
  return GatewayClass.find(({ metadata }) => metadata.name === spec.gatewayClassName);
}

/** None where it has none, or is not accepted: then its Gateways are not either. */
function parametersOfClass(gateway: Gateway, resources: ResourceSet): Parameters {
  const ofClass = classOf(gateway, resources);
  const read = ofClass && parametersOf(ofClass, resources.ConfigMap);
  return read?.kind === "parameters" ? read.parameters : {};
}

function setsOf({ metadata: { namespace, name } }: Gateway, { ListenerSet }: ResourceSet): ResourceSet["ListenerSet"] {
  return ListenerSet.filter(({ metadata, spec: { parentRef } }) => {
    return parentRef.name === name && (parentRef.namespace ?? metadata.namespace) === namespace;
  });
}

/**
 * Ports of listeners that are accepted, also of one that lacks its certificate, which may come at any moment; and of
 * those that are served by what was sound before.
 */
function acceptedPorts(
  { spec }: Gateway | ResourceSet["ListenerSet"][number],
  statuses: readonly ListenerStatus[],
): readonly number[] {
  return statuses.flatMap(({ name, conditions }) => {
    const listener = spec.listeners.find((each) => each.name === name);
    const isOpen = holds(conditions, "Accepted") || holds(conditions, "Programmed");
    return isOpen && listener !== undefined ? [listener.port] : [];
  });
}

export interface Observed {
  readonly resources: ResourceSet;
  /** A Gateway's Service as the API server has it. */
  readonly serviceOf: (gateway: Gateway) => KubeObject | undefined;
  readonly faults: ProvisionFaults;
}

/** Every status as it is to be written; in steps, as there may be thousands. */
export function* clusterStatuses(
  { statuses: judged, gateways, provision: { frozen } }: Plan,
  observed: Observed,
): Steps<ClusterStatuses> {
  const { resources } = observed;
  const statuses = yield* withWithheld(judged, resources, observed.faults.withheld);
  const programmed = new Set<string>();
  const told: ClusterStatuses["gateways"][number][] = [];
  for (const status of statuses.gateways) {
    yield;
    const gateway = gateways.get(keyOf(status));
    if (gateway === undefined) continue;
    const owner = ownerKey(status);
    const fault = frozen.has(owner) ? undefined : observed.faults.gateways.get(owner);
    const readiness = readinessOf(observed.serviceOf(gateway), resources.EndpointSlice, fault);
    const shown = withReadiness(status, gateway, readiness);
    if (holds(shown.conditions, "Programmed")) programmed.add(keyOf(status));
    told.push(shown);
  }
  const policies = new Map(resources.ProxyPolicy.map((policy) => [keyOf(policy.metadata), policy]));
  const parents = new Map(resources.ListenerSet.map((set) => [keyOf(set.metadata), parentOf(set)]));
  const listenerSets: ClusterStatuses["listenerSets"][number][] = [];
  for (const status of statuses.listenerSets) {
    listenerSets.push(setWithReadiness(status, programmed.has(parents.get(keyOf(status)) ?? "")));
    yield;
  }
  const { httpRoutes } = statuses;
  const proxyPolicies: ClusterStatuses["proxyPolicies"][number][] = [];
  for (const status of yield* withPending(statuses.proxyPolicies, { gateways: told, listenerSets, httpRoutes })) {
    proxyPolicies.push({ ...status, summary: policySummary(policies.get(keyOf(status)), status) });
    yield;
  }
  return {
    ...statuses,
    gatewayClasses: statuses.gatewayClasses.map((status) => ({
      ...status,
      supportedFeatures: supportedFeatures.map((name) => ({ name })),
    })),
    gateways: told,
    proxyPolicies,
    listenerSets,
    orphans: orphansOf(resources, gateways),
  };
}

/** @param gateways all that exist, by `namespace/name`. */
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

/** `namespace/name` of the Gateway of a set. */
function parentOf({ metadata, spec: { parentRef } }: ResourceSet["ListenerSet"][number]): string {
  return `${parentRef.namespace ?? metadata.namespace}/${parentRef.name}`;
}

function holds(conditions: readonly Condition[], type: string): boolean {
  return conditions.some((condition) => condition.type === type && condition.status === "True");
}

function keyOf({ namespace, name }: { readonly namespace: string; readonly name: string }): string {
  return `${namespace}/${name}`;
}
