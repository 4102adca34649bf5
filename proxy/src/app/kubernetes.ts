/** Kubernetes mode: the cluster's resources as the source of configuration, cut down to the Gateway that is served. */
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { Logs } from "@gatewayproxy/runtime/log";
import { ownPorts } from "@gatewayproxy/runtime/page-settings";
import type { Result } from "@gatewayproxy/runtime/problem";
import type { Steps } from "@gatewayproxy/runtime/steps";
import { findCluster } from "../kube/cluster.ts";
import { ClusterConnection } from "../kube/connection.ts";
import { openKubernetesSource, type Selection } from "../source/kubernetes/kubernetes-source.ts";
import { contained } from "../translate/containment.ts";
import { clusterEnvironment, hostEnvironment } from "../translate/environment.ts";
import { type GatewayName, gatewayScopeInSteps, readyReplicas } from "../translate/gateway-scope.ts";
import { namedObjects } from "../translate/references.ts";
import type { TranslateOptions } from "../translate/translate.ts";
import type { ResourceSet } from "../api/resource.ts";
import type { SourcedResources } from "./configuration.ts";

export interface KubernetesOptions {
  /** KUBECONFIG and what a pod is told of its cluster. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly logs: Logs;
  readonly clock: Clock;
  /** Undefined serves every Gateway of our class in this process, as in file mode. */
  readonly gateway: GatewayName | undefined;
  /** Ports at which this process serves operators; no listener can have one. */
  readonly ownPorts: readonly number[];
  readonly publish: (sourced: SourcedResources) => void;
}

/** Begins to watch the cluster. Fails when no cluster is known; one that cannot be reached is waited for. */
export async function openKubernetes(options: KubernetesOptions): Promise<Result<{ close(): Promise<void> }>> {
  const { env, logs, clock, gateway, publish } = options;
  const own = new Map(options.ownPorts.map((port) => [port, ownPorts.get(port) ?? "its operators"]));
  const found = await findCluster({ env });
  if (!found.ok) return found;
  const log = logs.logger("proxy::kubernetes");
  log.info({ server: found.value.server.href, ...(gateway && { gateway }) }, "reading the cluster");
  const connection = new ClusterConnection(found.value);
  const source = openKubernetesSource({
    connection,
    clock,
    random: Math.random,
    log,
    select: (resources) => selectFor(gateway, resources),
    keepsStatus: false,
    publish: ({ resources, problems, kept, rejected, unreadable }) =>
      publish({
        ...{ resources, problems, kept, rejected },
        inForce: new Map(),
        options: { ...translateOptions(resources, gateway, own), unreadable },
      }),
  });
  const close = async (): Promise<void> => {
    await source.close();
    connection.close();
  };
  return { ok: true, value: { close } };
}

function* selectFor(gateway: GatewayName | undefined, resources: ResourceSet): Steps<Selection> {
  const { value, culprits } = yield* contained(resources, function* (known) {
    const selected = gateway === undefined ? known : yield* gatewayScopeInSteps(known, gateway);
    return { resources: selected, named: yield* namedObjects(selected) };
  });
  return { ...value, rejected: culprits };
}

/** One Gateway has this pod for itself; several share it. */
function translateOptions(
  resources: ResourceSet,
  gateway: GatewayName | undefined,
  own: ReadonlyMap<number, string>,
): TranslateOptions {
  if (gateway === undefined) return { environment: { ...hostEnvironment, reservedPorts: own } };
  // The controller knows the default ports alone.
  const reservedPorts = new Map([...ownPorts, ...own]);
  return { readyReplicas: readyReplicas(resources, gateway), environment: clusterEnvironment({ reservedPorts }) };
}
