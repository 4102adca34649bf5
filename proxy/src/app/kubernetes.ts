/** Kubernetes mode: the source of configuration is the cluster's resources, reduced to the served Gateway. */
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { Logs } from "@gatewayproxy/runtime/log";
import { ownPorts, portsBeside } from "@gatewayproxy/runtime/operator-server-settings";
import type { SocketAddress } from "@gatewayproxy/runtime/setting-kinds";
import type { Result } from "@gatewayproxy/runtime/problem";
import type { Steps } from "@gatewayproxy/runtime/steps";
import { findCluster } from "../kube/cluster.ts";
import { ClusterConnection } from "../kube/connection.ts";
import { placeKey } from "../source/kubernetes/kind-memory.ts";
import { openKubernetesSource, type Selection } from "../source/kubernetes/kubernetes-source.ts";
import { contained } from "../translate/containment.ts";
import type { TranslateOptions } from "../translate/context.ts";
import { clusterEnvironment, hostEnvironment } from "../translate/environment.ts";
import { type GatewayName, gatewayScopeInSteps, readyReplicas } from "../translate/gateway/gateway-scope.ts";
import { namedWithinBound } from "../translate/reference/references.ts";
import { secretSelections } from "../translate/reference/selected-secrets.ts";
import type { WholeKind } from "../source/kubernetes/watched-kinds.ts";
import type { ResourceSet } from "../api/resource.ts";
import { concernsGateway } from "./gateway-concerns.ts";
import { ReplicaCount } from "./replica-count.ts";
import type { SourcedResources } from "./configuration.ts";

/** The cluster, the served Gateway, and the receiver of its resources. */
export interface KubernetesOptions {
  /** KUBECONFIG and the variables that describe a pod's cluster. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Creates the loggers of the source. */
  readonly logs: Logs;
  /** The clock of watches and retries. */
  readonly clock: Clock;
  /** Undefined: every Gateway of this class, as in file mode. */
  readonly gateway: GatewayName | undefined;
  /** As the setting: whether targets of a policy that cannot be read respond with 503. */
  readonly refusedPolicies: "Closed" | "Open";
  /** Ports of this process for operators, which no listener can use. */
  readonly ownPorts: readonly number[];
  /** As the setting: special addresses that backends may have. No listener can use their ports if they are loopback. */
  readonly allowedAddresses: readonly SocketAddress[];
  /** Called with each set of resources, including the first. Resolves when the set is applied; never rejects. */
  readonly publish: (sourced: SourcedResources) => Promise<unknown>;
}

/**
 * Without policies, routes would be served without limits and authentication, and backends would be connected to
 * without TLS.
 */
const restrictingKinds: readonly WholeKind[] = ["ProxyPolicy", "BackendTLSPolicy"];

/** The kinds from which a proxy knows the number of its replicas. */
const endpointKinds: readonly WholeKind[] = ["Service", "EndpointSlice"];

/** A cluster that is read. */
export interface OpenedKubernetes {
  /** The number of watches whose last request failed. */
  readonly failingWatches: number;
  close(): Promise<void>;
}

/** Starts to watch the cluster. Fails if no cluster is configured. A cluster that cannot be reached is retried. */
export async function openKubernetes(options: KubernetesOptions): Promise<Result<OpenedKubernetes>> {
  const { env, logs, clock, gateway, refusedPolicies, publish } = options;
  const portsOfProcess = new Map([
    ...portsBeside(options.allowedAddresses),
    ...options.ownPorts.map((port) => [port, ownPorts.get(port) ?? "its operators"] as const),
  ]);
  const found = await findCluster({ env });
  if (!found.ok) return found;
  const log = logs.logger("proxy::kubernetes");
  log.info({ server: found.value.server.href, ...(gateway && { gateway }) }, "reading the cluster");
  const connection = new ClusterConnection(found.value);
  let applied: Promise<unknown> = Promise.resolve();
  const replicas = new ReplicaCount();
  const ofGateway = (kind: WholeKind) => placeKey({ kind, namespace: gateway?.namespace ?? "" });
  const source = openKubernetesSource({
    connection,
    clock,
    random: Math.random,
    log,
    select: (resources) => selectResources(gateway, resources),
    keepsStatus: false,
    requiredKinds: refusedPolicies === "Closed" ? restrictingKinds : [],
    publish: ({ resources, problems, kept, rejected, unreadable, crowded, incomplete }) => {
      const options = translateOptions(resources, gateway, portsOfProcess);
      const isComplete = endpointKinds.every((kind) => !incomplete.has(ofGateway(kind)));
      const { readyReplicas: counted } = options;
      const shared = counted !== undefined && { readyReplicas: replicas.of(counted, isComplete) };
      applied = publish({
        ...{ resources, problems, kept, rejected },
        inForce: new Map(),
        options: { ...options, ...shared, unreadable, crowded },
      });
    },
    applied: () => applied,
  });
  const close = async (): Promise<void> => {
    await source.close();
    connection.close();
  };
  const value = {
    get failingWatches() {
      return source.failingWatches;
    },
    close,
  };
  return { ok: true, value };
}

function* selectResources(gateway: GatewayName | undefined, resources: ResourceSet): Steps<Selection> {
  const { value, culprits } = yield* contained(resources, function* (included) {
    const selected = gateway === undefined ? included : yield* gatewayScopeInSteps(included, gateway);
    // The proxy of one Gateway may not list Secrets, and reads from the statuses which ones are selected.
    if (gateway !== undefined) {
      const objects = yield* namedWithinBound(selected, { readsStatus: true });
      return { resources: selected, ...objects, concerns: concernsGateway(gateway, selected) };
    }
    return { resources: selected, ...(yield* namedWithinBound(selected)), selections: secretSelections(selected) };
  });
  return { ...value, rejected: culprits };
}

/**
 * Returns the options of the translation. A pod of one Gateway reserves more ports than a process that serves several.
 */
function translateOptions(
  resources: ResourceSet,
  gateway: GatewayName | undefined,
  portsOfProcess: ReadonlyMap<number, string>,
): TranslateOptions {
  if (gateway === undefined) return { environment: { ...hostEnvironment, reservedPorts: portsOfProcess } };
  // The controller only knows the default ports.
  const reservedPorts = new Map([...ownPorts, ...portsOfProcess]);
  return { readyReplicas: readyReplicas(resources, gateway), environment: clusterEnvironment({ reservedPorts }) };
}
