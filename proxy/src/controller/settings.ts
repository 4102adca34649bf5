/** All settings of the controller. `--help` is generated from this table. */
import { hostname } from "node:os";
import { operatorServerSettings } from "@gatewayproxy/runtime/operator-server-settings";
import { integer, ipSocketAddresses, logFilter, oneOf, optional, text } from "@gatewayproxy/runtime/setting-kinds";
import type { SettingValues } from "@gatewayproxy/runtime/settings";
import { controllerLogModules } from "./log-modules.ts";
import { networkPolicyPeers } from "./provision/network-policy-peers.ts";

/** The table of settings, by name. */
export const controllerSettings = {
  proxyImage: {
    kind: text("IMAGE", "a container image such as registry.example/gateway-proxy:1.0"),
    flag: "proxy-image",
    env: "PROXY_IMAGE",
    help: "Container image of the proxies of each Gateway.",
  },
  proxyImagePullPolicy: {
    kind: oneOf("Always", "IfNotPresent", "Never"),
    flag: "proxy-image-pull-policy",
    env: "PROXY_IMAGE_PULL_POLICY",
    default: "IfNotPresent",
    help: "Pull policy of that image.",
  },
  proxyReplicas: {
    kind: integer(1, 1_000),
    flag: "proxy-replicas",
    env: "PROXY_REPLICAS",
    default: "2",
    help: "Number of proxies of a Gateway whose parameters do not set it.",
  },
  proxyServiceType: {
    kind: oneOf("LoadBalancer", "NodePort", "ClusterIP"),
    flag: "proxy-service-type",
    env: "PROXY_SERVICE_TYPE",
    default: "LoadBalancer",
    help: "Type of the Service of a Gateway whose parameters do not set it.",
  },
  proxyClusterRole: {
    kind: text("NAME", "the name of a ClusterRole"),
    flag: "proxy-cluster-role",
    env: "PROXY_CLUSTER_ROLE",
    default: "gateway-proxy-proxy",
    help: "ClusterRole that permits proxies to read all watched kinds except Secrets and ConfigMaps.",
  },
  proxyNetworkPolicy: {
    kind: oneOf("off", "on"),
    flag: "proxy-network-policy",
    env: "PROXY_NETWORK_POLICY",
    default: "off",
    help: "Whether each Gateway gets a NetworkPolicy that allows connections only to its listeners, readiness and metrics.",
  },
  proxyMetricsFrom: {
    kind: optional(networkPolicyPeers),
    flag: "proxy-metrics-from",
    env: "PROXY_METRICS_FROM",
    defaultText: "all",
    help: "Which clients may read the metrics of proxies, in their NetworkPolicies. A podSelector alone selects pods of the controller's namespace.",
  },
  proxyAllowBackendAddress: {
    kind: optional(ipSocketAddresses),
    flag: "proxy-allow-backend-address",
    env: "PROXY_ALLOW_BACKEND_ADDRESS",
    defaultText: "none",
    help: "Special addresses (loopback, link-local, metadata) that backends and rate limit services may use nevertheless, in every proxy, such as 127.0.0.1:8081 of a sidecar.",
  },
  proxyRefusedPolicies: {
    kind: oneOf("Closed", "Open"),
    flag: "proxy-refused-policies",
    env: "PROXY_REFUSED_POLICIES",
    default: "Closed",
    help: "How proxies serve the targets of a ProxyPolicy that is invalid and has no previous valid version: Closed responds with 503, Open serves them without the limits of the policy.",
  },
  identity: {
    kind: text("NAME", "a name that is unique among the replicas"),
    flag: "identity",
    env: "POD_NAME",
    default: hostname(),
    defaultText: "host name",
    help: "Name of this replica in the leader election.",
  },
  namespace: {
    kind: text("NAMESPACE", "a namespace"),
    flag: "namespace",
    env: "POD_NAMESPACE",
    default: "gateway-proxy-system",
    help: "Namespace of the Lease of the leader election.",
  },
  ...operatorServerSettings,
  logLevel: {
    kind: logFilter(Object.keys(controllerLogModules)),
    flag: "log-level",
    env: "LOG_LEVEL",
    default: "info",
    help: "Minimum level of logged lines, for each module, in the syntax of RUST_LOG.",
  },
} as const;

/** The parsed values of `controllerSettings`. */
export type ControllerSettings = SettingValues<typeof controllerSettings>;
