/** What tests of the controller with an `ObjectApiServer` share: the paths of its collections, and the GatewayClass. */
import { gatewayApi, proxyApi } from "./api-versions.ts";

/** The paths of collections over all namespaces. */
export const paths = {
  classes: `/apis/${gatewayApi}/gatewayclasses`,
  gateways: `/apis/${gatewayApi}/gateways`,
  routes: `/apis/${gatewayApi}/httproutes`,
  sets: `/apis/${gatewayApi}/listenersets`,
  grants: `/apis/${gatewayApi}/referencegrants`,
  policies: `/apis/${proxyApi}/proxypolicies`,
  backends: `/apis/${proxyApi}/backends`,
  accounts: "/api/v1/serviceaccounts",
  roles: "/apis/rbac.authorization.k8s.io/v1/roles",
  bindings: "/apis/rbac.authorization.k8s.io/v1/rolebindings",
};

export const gatewayClass = {
  apiVersion: gatewayApi,
  kind: "GatewayClass",
  metadata: { name: "gateway-proxy" },
  spec: { controllerName: "gatewayproxy.dev/controller" },
};
