/**
 * Builds the objects that serve a Gateway in a cluster: a Deployment of proxies with its ServiceAccount, Service and
 * PodDisruptionBudget, and a HorizontalPodAutoscaler if parameters request one. If they request volumes, a StatefulSet
 * replaces the Deployment. Pods comply with the Pod Security Standard "restricted".
 */
import { gatewayNameLabel } from "../../api/names.ts";
import { objectKey } from "@gatewayproxy/runtime/object-key";
import { isIP } from "node:net";
import { metricsPorts, readinessPort, statsPort } from "@gatewayproxy/runtime/operator-server-settings";
import { renderSocketAddress, type SocketAddress } from "@gatewayproxy/runtime/setting-kinds";
import type { Gateway } from "../../api/gateway.ts";
import type { KubeObject } from "../../kube/object.ts";
import { gatewayLabelValue } from "../../translate/gateway/gateway-label.ts";
import type { RefusedPolicies } from "../../translate/context.ts";
import { mergeObject } from "./merge.ts";
import { boundedName, gatewayNamespaceLabel, managedBy, managedByLabel } from "./names.ts";
import { infrastructureOf, podMetadataOf } from "./infrastructure.ts";
import { type OwnedContent, type OwnedKind, ownedObject, type OwnedObject } from "./owned-object.ts";
import type { ParameterKey, Parameters } from "./parameter-keys.ts";
import { hasVolumes, statefulSetParameters, volumeFields, withVolume } from "./persistence.ts";

/** Settings of the operator for all proxies. */
export interface ProxyDefaults {
  readonly image: string;
  readonly imagePullPolicy: "Always" | "IfNotPresent" | "Never";
  readonly replicas: number;
  readonly serviceType: "LoadBalancer" | "NodePort" | "ClusterIP";
  /** The ClusterRole that permits proxies to read all watched kinds except Secrets and ConfigMaps. */
  readonly clusterRole: string;
  readonly hasNetworkPolicy: boolean;
  /** Peers of the NetworkPolicy that may read metrics; empty: all. */
  readonly metricsFrom: readonly KubeObject[];
  /** Special addresses that backends may have: the proxy's setting `--allow-backend-address`. */
  readonly allowedAddresses: readonly SocketAddress[];
  /** The proxy's setting `--refused-policies`. */
  readonly refusedPolicies: RefusedPolicies;
}

/** A port on which listeners accept connections, or with UDP datagrams. */
export interface ListenerPort {
  readonly port: number;
  readonly protocol: "TCP" | "UDP";
}

/** A Gateway for which the controller runs a workload. */
export interface ManagedGateway {
  readonly gateway: Gateway;
  /** The UID of the Gateway object, for owner references. */
  readonly uid: string;
  /** The ports of its listeners and those of its ListenerSets, ascending. */
  readonly ports: readonly ListenerPort[];
  /** The parameters of the class and of the Gateway. Later ones are merged over earlier ones. */
  readonly parameters: readonly Parameters[];
  /** Label keys by which Services of the namespace select pods. */
  readonly selected: ReadonlySet<string>;
  readonly defaults: ProxyDefaults;
}

/** Seconds for connections to end. The proxy's own drain timeout is shorter. */
const graceSeconds = 60;

/** The time for which a terminating pod continues to serve, so that all load balancers remove it first. */
const drainDelay = "5s";

/**
 * One worker takes 230 to 330 MiB under load (docs/benchmarks.md). The memory limit leaves room for further workers,
 * whose number depends on it, and for buffered bodies.
 */
const proxyResources = { requests: { cpu: "100m", memory: "384Mi" }, limits: { memory: "1Gi" } };

/** The user and group of the container: a number other than 0 that the image does not use. */
const userId = 65_532;

/** Returns the name of all objects of a Gateway in its namespace. That of a StatefulSet may be shorter. */
export function workloadName({ metadata, spec }: Gateway): string {
  return boundedName(`${metadata.name}-${spec.gatewayClassName}`);
}

/** The maximum for the name of a StatefulSet: its controller adds a hash of ten digits in a label. */
const maxSetNameLength = 52;

/** Returns the name of the StatefulSet of a Gateway with volumes. */
export function statefulSetName({ metadata, spec }: Gateway): string {
  return boundedName(`${metadata.name}-${spec.gatewayClassName}`, maxSetNameLength);
}

/**
 * Distinguishes the pods of a StatefulSet from those of a Deployment of the same Gateway, which exist at the same time
 * while one replaces the other. Services select both.
 */
const setLabels = { "gatewayproxy.dev/workload": "StatefulSet" } as const;

/**
 * Returns the pod selector of Services, Deployments and budgets. It never changes: a Deployment's selector is
 * immutable.
 */
function selectorOf(gateway: Gateway): Readonly<Record<string, string>> {
  return { [gatewayNameLabel]: gatewayLabelValue(gateway.metadata.name), [managedByLabel]: managedBy };
}

/**
 * Returns the labels of an object of a Gateway: those of its infrastructure, and those of the controller, which take
 * precedence.
 */
export function labelsOf(gateway: Gateway, kind?: OwnedKind): Readonly<Record<string, string>> {
  return { ...infrastructureOf(gateway, kind === "Service" ? kind : "others").labels, ...ownLabels(gateway) };
}

/** Returns the labels that identify an object. Users cannot change them. */
function ownLabels(gateway: Gateway): Readonly<Record<string, string>> {
  return {
    ...selectorOf(gateway),
    [gatewayNamespaceLabel]: gateway.metadata.namespace,
    "app.kubernetes.io/name": "gateway-proxy",
    "app.kubernetes.io/instance": gatewayLabelValue(gateway.metadata.name),
  };
}

/** Returns the metadata of an object in the Gateway's namespace. Its owner reference deletes it with the Gateway. */
export function metadataOf(
  { gateway, uid }: Pick<ManagedGateway, "gateway" | "uid">,
  of?: OwnedKind,
): Readonly<Record<string, unknown>> {
  const { apiVersion, kind, metadata } = gateway;
  const { annotations } = infrastructureOf(gateway, of === "Service" ? of : "others");
  const owner = { apiVersion, kind, name: metadata.name, uid, controller: true, blockOwnerDeletion: false };
  return {
    labels: labelsOf(gateway, of),
    ...(Object.keys(annotations).length > 0 && { annotations }),
    ownerReferences: [owner],
  };
}

/** Returns the objects that serve a Gateway, without its roles. */
export function workloadOf(managed: ManagedGateway): readonly OwnedObject[] {
  // A pod that is not ready serves no traffic, so it must not prevent the drain of a node.
  const budget = {
    spec: {
      maxUnavailable: 1,
      unhealthyPodEvictionPolicy: "AlwaysAllow",
      selector: { matchLabels: selectorOf(managed.gateway) },
    },
  };
  const { parameters } = managed;
  const workload = workloadWithPods(managed);
  const isScaled = parameters.some(({ horizontalPodAutoscaler }) => horizontalPodAutoscaler !== undefined);
  return [
    objectWithParameters(managed, "ServiceAccount", "serviceAccount", {}),
    objectWithParameters(managed, "Service", "service", serviceFields(managed)),
    isScaled ? withoutReplicas(workload) : workload,
    objectWithParameters(managed, "PodDisruptionBudget", "podDisruptionBudget", budget),
    ...(isScaled
      ? [
          objectWithParameters(
            managed,
            "HorizontalPodAutoscaler",
            "horizontalPodAutoscaler",
            autoscalerFields(managed, workload),
          ),
        ]
      : []),
    ...(managed.defaults.hasNetworkPolicy ? [networkPolicy(managed)] : []),
  ];
}

function objectWithParameters(
  managed: ManagedGateway,
  kind: OwnedContent["kind"],
  key: ParameterKey,
  fields: KubeObject,
): OwnedObject {
  const patches = managed.parameters.map((parameters) => parameters[key] ?? {});
  return mergedObject(managed, { kind, name: workloadName(managed.gateway), fields }, patches);
}

/** Returns an object with parameters merged into it. They cannot change its name, identifying labels and owner. */
function mergedObject(
  managed: ManagedGateway,
  { kind, name, fields }: Pick<OwnedContent, "kind" | "name" | "fields">,
  patches: readonly KubeObject[],
): OwnedObject {
  const base = { metadata: metadataOf(managed, kind), ...fields };
  const { metadata, ...rest } = patches.reduce<KubeObject>(mergeObject, base);
  const { labels, annotations } = metadata as { labels?: object; annotations?: object };
  const { ownerReferences } = base.metadata;
  return ownedObject({
    ...{ kind, name, fields: rest },
    namespace: managed.gateway.metadata.namespace,
    metadata: {
      labels: { ...labels, ...ownLabels(managed.gateway) },
      ...(annotations && { annotations }),
      ownerReferences,
    },
  });
}

function serviceFields({ gateway, ports, defaults }: ManagedGateway): KubeObject {
  const addresses = gateway.spec.addresses.flatMap(({ type, value }) =>
    type === "IPAddress" && value !== undefined && isIP(value) !== 0 ? [value] : [],
  );
  return {
    spec: {
      type: defaults.serviceType,
      selector: selectorOf(gateway),
      ports: ports.map(({ port, protocol }) => ({
        name: protocol === "UDP" ? `port-${port}-udp` : `port-${port}`,
        port,
        targetPort: port,
        protocol,
      })),
      // The field is deprecated in favour of annotations of each implementation, but all implementations support it.
      ...(defaults.serviceType === "LoadBalancer" && addresses[0] !== undefined && { loadBalancerIP: addresses[0] }),
    },
  };
}

/**
 * Removes the number of replicas, because the autoscaler sets it and two writers of one field would overwrite each
 * other.
 */
function withoutReplicas(workload: OwnedObject): OwnedObject {
  const body = mergeObject(workload.body, { spec: { replicas: null } });
  return { ...workload, body };
}

/** The Deployment or StatefulSet. The other one serves until this one does. */
function workloadWithPods(managed: ManagedGateway): OwnedObject {
  const { gateway, parameters } = managed;
  return hasVolumes(parameters)
    ? { ...statefulSet(managed), replaces: { kind: "Deployment", name: workloadName(gateway) } }
    : { ...deployment(managed), replaces: { kind: "StatefulSet", name: statefulSetName(gateway) } };
}

function deployment(managed: ManagedGateway): OwnedObject {
  return objectWithParameters(managed, "Deployment", "deployment", {
    spec: {
      replicas: managed.defaults.replicas,
      selector: { matchLabels: selectorOf(managed.gateway) },
      strategy: { type: "RollingUpdate", rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } },
      template: { metadata: podMetadata(managed), spec: podSpec(managed) },
    },
  });
}

function statefulSet(managed: ManagedGateway): OwnedObject {
  const { gateway, parameters, defaults } = managed;
  const selector = { ...selectorOf(gateway), ...setLabels };
  const spec = {
    replicas: defaults.replicas,
    selector: { matchLabels: selector },
    template: { metadata: podMetadata(managed, setLabels), spec: withVolume(podSpec(managed), userId) },
    ...volumeFields(parameters, workloadName(gateway), selector),
  };
  const content = { kind: "StatefulSet", name: statefulSetName(gateway), fields: { spec } } as const;
  return mergedObject(managed, content, statefulSetParameters(parameters));
}

function podMetadata({ gateway, selected }: ManagedGateway, more: Readonly<Record<string, string>> = {}): KubeObject {
  const { labels, annotations } = podMetadataOf(gateway, selected);
  return {
    labels: { ...labels, ...ownLabels(gateway), ...more },
    ...(Object.keys(annotations).length > 0 && { annotations }),
  };
}

function podSpec({ gateway, defaults }: ManagedGateway): KubeObject {
  return {
    serviceAccountName: workloadName(gateway),
    terminationGracePeriodSeconds: graceSeconds,
    securityContext: {
      runAsNonRoot: true,
      runAsUser: userId,
      runAsGroup: userId,
      seccompProfile: { type: "RuntimeDefault" },
      // Lets a user other than root listen on ports such as 80.
      sysctls: [{ name: "net.ipv4.ip_unprivileged_port_start", value: "0" }],
    },
    topologySpreadConstraints: [
      {
        topologyKey: "kubernetes.io/hostname",
        maxSkew: 1,
        whenUnsatisfiable: "ScheduleAnyway",
        labelSelector: { matchLabels: selectorOf(gateway) },
      },
    ],
    containers: [proxyContainer(gateway, defaults)],
    volumes: [{ name: "tmp", emptyDir: {} }],
  };
}

function proxyContainer({ metadata }: Gateway, defaults: ProxyDefaults): KubeObject {
  const allowed = defaults.allowedAddresses.map(renderSocketAddress).join(",");
  const field = (name: string, fieldPath: string) => ({ name, valueFrom: { fieldRef: { fieldPath } } });
  return {
    name: "proxy",
    image: defaults.image,
    imagePullPolicy: defaults.imagePullPolicy,
    command: ["node", "proxy.js"],
    args: ["--kubernetes", "--gateway", objectKey(metadata)],
    env: [
      field("POD_NAME", "metadata.name"),
      field("POD_NAMESPACE", "metadata.namespace"),
      field("POD_IP", "status.podIP"),
      { name: "DRAIN_DELAY", value: drainDelay },
      // Variables and not arguments, so that the parameters of a class can change them.
      ...(allowed === "" ? [] : [{ name: "ALLOW_BACKEND_ADDRESS", value: allowed }]),
      ...(defaults.refusedPolicies === "Closed" ? [] : [{ name: "REFUSED_POLICIES", value: defaults.refusedPolicies }]),
    ],
    // The ports of listeners are not here, because they change without new pods.
    ports: [
      { name: "metrics", containerPort: statsPort, protocol: "TCP" },
      { name: "readiness", containerPort: readinessPort, protocol: "TCP" },
    ],
    readinessProbe: { httpGet: { path: "/healthz/ready", port: "readiness" }, periodSeconds: 5 },
    resources: proxyResources,
    securityContext: {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ["ALL"] },
    },
    volumeMounts: [{ name: "tmp", mountPath: "/tmp" }],
  };
}

function autoscalerFields({ defaults }: ManagedGateway, { kind, name }: OwnedObject): KubeObject {
  return {
    spec: {
      scaleTargetRef: { apiVersion: "apps/v1", kind, name },
      minReplicas: defaults.replicas,
      maxReplicas: Math.max(10, defaults.replicas),
    },
  };
}

/**
 * Allows connections from everywhere to the listeners and readiness, from everywhere or some peers to metrics, and to
 * no other port. The admin server is on loopback.
 */
function networkPolicy(managed: ManagedGateway): OwnedObject {
  const { gateway, ports, defaults } = managed;
  const { metricsFrom, allowedAddresses } = defaults;
  const isMetricsOpen = metricsFrom.length === 0;
  const ofMetrics = metricsPorts(allowedAddresses);
  const operator = [...(isMetricsOpen ? ofMetrics : []), readinessPort].map((port) => ({ port, protocol: "TCP" }));
  const open = [...ports.map(({ port, protocol }) => ({ port, protocol })), ...operator];
  const metrics = { ports: ofMetrics.map((port) => ({ port, protocol: "TCP" })), from: metricsFrom };
  const fields = {
    spec: {
      podSelector: { matchLabels: selectorOf(gateway) },
      policyTypes: ["Ingress"],
      ingress: [{ ports: open }, ...(isMetricsOpen ? [] : [metrics])],
    },
  };
  const name = workloadName(gateway);
  const { namespace } = gateway.metadata;
  return ownedObject({ kind: "NetworkPolicy", namespace, name, metadata: metadataOf(managed), fields });
}
