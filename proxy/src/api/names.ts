/** The names of this gateway in Kubernetes, and the API groups that it reads; one constant each. */

/** API group of ProxyPolicy and Backend. */
export const proxyGroup = "gatewayproxy.dev";

/** API group of Gateway, HTTPRoute and the other kinds of the Gateway API. */
export const gatewayGroup = "gateway.networking.k8s.io";

/** The label of all objects of a Gateway (GEP-1762). */
export const gatewayNameLabel = `${gatewayGroup}/gateway-name`;

/** The GatewayClass that this controller owns without an object of that name, as in file mode. */
export const gatewayClassName = "gateway-proxy";

/**
 * `spec.controllerName` of the GatewayClasses that this controller owns, and the field manager of the statuses that it
 * writes.
 */
export const controllerName = "gatewayproxy.dev/controller";

/** The namespace of a manifest that names none, as for `kubectl`. */
export const defaultNamespace = "default";
