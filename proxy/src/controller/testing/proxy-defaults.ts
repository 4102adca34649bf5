import type { ProxyDefaults } from "../provision/workload.ts";

/** What an operator could set for all proxies. Tests change the field that they are about. */
export const proxyDefaults: ProxyDefaults = {
  image: "proxy:1",
  imagePullPolicy: "IfNotPresent",
  replicas: 2,
  serviceType: "ClusterIP",
  clusterRole: "gateway-proxy-proxy",
  hasNetworkPolicy: false,
  allowedAddresses: [],
  refusedPolicies: "Closed",
};
