/** The versions in which manifests of tests are written. */
export const gatewayApi = "gateway.networking.k8s.io/v1";
export const proxyApi = "gatewayproxy.dev/v1alpha1";
