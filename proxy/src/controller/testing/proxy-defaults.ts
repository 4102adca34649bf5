import type { ProxyDefaults } from "../provision/workload.ts";

/** Settings of an operator for all proxies. Tests change the field that they test. */
export const proxyDefaults: ProxyDefaults = {
  image: "proxy:1",
  imagePullPolicy: "IfNotPresent",
  replicas: 2,
  serviceType: "ClusterIP",
  clusterRole: "gateway-proxy-proxy",
  hasNetworkPolicy: false,
  metricsFrom: [],
  allowedAddresses: [],
  refusedPolicies: "Closed",
};
