/** The names by which Kubernetes knows us and the groups whose resources we read; one constant each. */

/** API group of ProxyPolicy and Backend. */
export const proxyGroup = "gatewayproxy.dev";

/** API group of Gateway, HTTPRoute and their kin. */
export const gatewayGroup = "gateway.networking.k8s.io";

/** The GatewayClass that needs no resource of its own to be ours: file mode has none as a rule. */
export const gatewayClassName = "gateway-proxy";

/** `spec.controllerName` of a GatewayClass that is ours, and the author of every status that we write. */
export const controllerName = "gatewayproxy.dev/controller";

/** Where a manifest without a namespace belongs, as `kubectl` has it. */
export const defaultNamespace = "default";
