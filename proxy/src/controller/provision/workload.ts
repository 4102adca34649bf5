/**
 * What serves a Gateway in a cluster: a Deployment of proxies with its ServiceAccount, the Service before it, its
 * PodDisruptionBudget, and where parameters ask for them a HorizontalPodAutoscaler. Pods keep to the Pod Security
 * Standard "restricted".
 */
import { isIP } from "node:net";
import { readinessPort, statsPort } from "@gatewayproxy/runtime/page-settings";
import { renderSocketAddress, type SocketAddress } from "@gatewayproxy/runtime/setting-kinds";
import type { Gateway } from "../../api/gateway.ts";
import type { KubeObject } from "../../kube/object.ts";
import { gatewayLabelValue, gatewayNameLabel } from "../../translate/gateway-label.ts";
import type { RefusedPolicies } from "../../translate/policies.ts";
import { mergeObject } from "./merge.ts";
import { boundedName, gatewayNamespaceLabel, managedBy, managedByLabel } from "./names.ts";
import { infrastructureOf, podMetadataOf } from "./infrastructure.ts";
import { type OwnedContent, type OwnedKind, ownedObject, type OwnedObject } from "./owned-object.ts";
import type { ParameterKey, Parameters } from "./parameter-keys.ts";

/** What an operator decides for all proxies. */
export interface ProxyDefaults {
  readonly image: string;
  readonly imagePullPolicy: "Always" | "IfNotPresent" | "Never";
  readonly replicas: number;
  readonly serviceType: "LoadBalancer" | "NodePort" | "ClusterIP";
  /** By which they read everything but Secrets and ConfigMaps. */
  readonly clusterRole: string;
  readonly hasNetworkPolicy: boolean;
  /** Special addresses that backends may have, as the proxy's own setting. */
  readonly allowedAddresses: readonly SocketAddress[];
  /** As the proxy's own setting. */
  readonly refusedPolicies: RefusedPolicies;
}

/** A Gateway to be served. */
export interface Tenant {
  readonly gateway: Gateway;
  /** Of the Gateway object, for owner references. */
  readonly uid: string;
  /** Of its listeners and those of its ListenerSets, ascending. */
  readonly ports: readonly number[];
  /** The class's and the Gateway's, the later over the earlier. */
  readonly parameters: readonly Parameters[];
  /** Keys of labels by which Services of the namespace select pods. */
  readonly selected: ReadonlySet<string>;
  readonly defaults: ProxyDefaults;
}

/** Connections get this long to end; the proxy's own drain timeout is shorter. */
const graceSeconds = 60;

/** How long a pod that is to end goes on serving, so that everybody who sends traffic learns of it. */
const drainDelay = "5s";

/**
 * One worker takes 230 to 330 MiB under load (docs/benchmarks.md); the limit leaves room for more workers, whose number
 * follows it, and for bodies that are held.
 */
const proxyResources = { requests: { cpu: "100m", memory: "384Mi" }, limits: { memory: "1Gi" } };

/** Nobody's number; any but 0 would do. */
const userId = 65_532;

/** The name of everything that is made for a Gateway in its namespace. */
export function tenantName({ metadata, spec }: Gateway): string {
  return boundedName(`${metadata.name}-${spec.gatewayClassName}`);
}

/** What pods, Services and budgets find each other by. It never changes, because a Deployment's may not. */
function selectorOf(gateway: Gateway): Readonly<Record<string, string>> {
  return { [gatewayNameLabel]: gatewayLabelValue(gateway.metadata.name), [managedByLabel]: managedBy };
}

/** Labels of an object of a Gateway: those that its infrastructure asks for, and ours over them. */
export function labelsOf(gateway: Gateway, kind?: OwnedKind): Readonly<Record<string, string>> {
  return { ...infrastructureOf(gateway, kind === "Service" ? kind : "others").labels, ...ownLabels(gateway) };
}

/** Labels that say what an object is, and that nobody else sets. */
function ownLabels(gateway: Gateway): Readonly<Record<string, string>> {
  return {
    ...selectorOf(gateway),
    [gatewayNamespaceLabel]: gateway.metadata.namespace,
    "app.kubernetes.io/name": "gateway-proxy",
    "app.kubernetes.io/instance": gatewayLabelValue(gateway.metadata.name),
  };
}

/** Metadata of an object in the Gateway's own namespace: it goes when the Gateway does. */
export function metadataOf(
  { gateway, uid }: Pick<Tenant, "gateway" | "uid">,
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

/** Everything that serves a Gateway but its roles. */
export function workloadOf(tenant: Tenant): readonly OwnedObject[] {
  // A pod that is not ready serves nobody, and must not keep a node from being drained.
  const budget = {
    spec: {
      maxUnavailable: 1,
      unhealthyPodEvictionPolicy: "AlwaysAllow",
      selector: { matchLabels: selectorOf(tenant.gateway) },
    },
  };
  const deployment = shaped(tenant, "Deployment", "deployment", deploymentFields(tenant));
  const isScaled = tenant.parameters.some(({ horizontalPodAutoscaler }) => horizontalPodAutoscaler !== undefined);
  return [
    shaped(tenant, "ServiceAccount", "serviceAccount", {}),
    shaped(tenant, "Service", "service", serviceFields(tenant)),
    isScaled ? withoutReplicas(deployment) : deployment,
    shaped(tenant, "PodDisruptionBudget", "podDisruptionBudget", budget),
    ...(isScaled
      ? [shaped(tenant, "HorizontalPodAutoscaler", "horizontalPodAutoscaler", autoscalerFields(tenant))]
      : []),
    ...(tenant.defaults.hasNetworkPolicy ? [networkPolicy(tenant)] : []),
  ];
}

/** An object with the parameters of its kind over it; its name, its labels and its owner stay ours. */
function shaped(tenant: Tenant, kind: OwnedContent["kind"], key: ParameterKey, fields: KubeObject): OwnedObject {
  const base = { metadata: metadataOf(tenant, kind), ...fields };
  const { metadata, ...rest } = tenant.parameters.reduce<KubeObject>(
    (merged, parameters) => mergeObject(merged, parameters[key] ?? {}),
    base,
  );
  const { labels, annotations } = metadata as { labels?: object; annotations?: object };
  const { ownerReferences } = base.metadata;
  return ownedObject({
    kind,
    namespace: tenant.gateway.metadata.namespace,
    name: tenantName(tenant.gateway),
    metadata: {
      labels: { ...labels, ...ownLabels(tenant.gateway) },
      ...(annotations && { annotations }),
      ownerReferences,
    },
    fields: rest,
  });
}

function serviceFields({ gateway, ports, defaults }: Tenant): KubeObject {
  const asked = gateway.spec.addresses.flatMap(({ type, value }) =>
    type === "IPAddress" && value !== undefined && isIP(value) !== 0 ? [value] : [],
  );
  return {
    spec: {
      type: defaults.serviceType,
      selector: selectorOf(gateway),
      ports: ports.map((port) => ({ name: `port-${port}`, port, targetPort: port, protocol: "TCP" })),
      // The field's successor is up to each load balancer; this one all of them know.
      ...(defaults.serviceType === "LoadBalancer" && asked[0] !== undefined && { loadBalancerIP: asked[0] }),
    },
  };
}

/** An autoscaler says how many, whatever parameters do: two authors of one number would never rest. */
function withoutReplicas(deployment: OwnedObject): OwnedObject {
  const body = mergeObject(deployment.body, { spec: { replicas: null } });
  return { ...deployment, body };
}

function deploymentFields(tenant: Tenant): KubeObject {
  const { gateway, defaults, selected } = tenant;
  const { labels, annotations } = podMetadataOf(gateway, selected);
  return {
    spec: {
      replicas: defaults.replicas,
      selector: { matchLabels: selectorOf(gateway) },
      strategy: { type: "RollingUpdate", rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } },
      template: {
        metadata: {
          labels: { ...labels, ...ownLabels(gateway) },
          ...(Object.keys(annotations).length > 0 && { annotations }),
        },
        spec: podSpec(tenant),
      },
    },
  };
}

function podSpec({ gateway, defaults }: Tenant): KubeObject {
  return {
    serviceAccountName: tenantName(gateway),
    terminationGracePeriodSeconds: graceSeconds,
    securityContext: {
      runAsNonRoot: true,
      runAsUser: userId,
      runAsGroup: userId,
      seccompProfile: { type: "RuntimeDefault" },
      // A user that is not root may then listen at ports such as 80.
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
    args: ["--kubernetes", "--gateway", `${metadata.namespace}/${metadata.name}`],
    env: [
      field("POD_NAME", "metadata.name"),
      field("POD_NAMESPACE", "metadata.namespace"),
      field("POD_IP", "status.podIP"),
      { name: "DRAIN_DELAY", value: drainDelay },
      // A variable rather than an argument, so that the parameters of a class can say otherwise.
      ...(allowed === "" ? [] : [{ name: "ALLOW_BACKEND_ADDRESS", value: allowed }]),
      ...(defaults.refusedPolicies === "Closed" ? [] : [{ name: "REFUSED_POLICIES", value: defaults.refusedPolicies }]),
    ],
    // Listeners come and go without new pods, so they are not named here.
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

function autoscalerFields({ gateway, defaults }: Tenant): KubeObject {
  return {
    spec: {
      scaleTargetRef: { apiVersion: "apps/v1", kind: "Deployment", name: tenantName(gateway) },
      minReplicas: defaults.replicas,
      maxReplicas: Math.max(10, defaults.replicas),
    },
  };
}

/** Opens what pods serve to everybody, and nothing else; the admin server is on loopback anyway. */
function networkPolicy(tenant: Tenant): OwnedObject {
  const { gateway, ports } = tenant;
  const open = [...ports, statsPort, readinessPort].map((port) => ({ port, protocol: "TCP" }));
  const fields = {
    spec: {
      podSelector: { matchLabels: selectorOf(gateway) },
      policyTypes: ["Ingress"],
      ingress: [{ ports: open }],
    },
  };
  const name = tenantName(gateway);
  const { namespace } = gateway.metadata;
  return ownedObject({ kind: "NetworkPolicy", namespace, name, metadata: metadataOf(tenant), fields });
}
