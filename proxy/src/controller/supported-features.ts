/**
 * Features of the Gateway API that we claim (`GatewayClass.status.supportedFeatures`): those whose conformance tests
 * pass, see `docs/conformance`. Edit here; the names are the suite's, and the list is sorted.
 */
export const supportedFeatures: readonly string[] = [
  "Gateway",
  "GatewayAddressEmpty",
  "GatewayHTTPListenerIsolation",
  "GatewayInfrastructure",
  "GatewayPort8080",
  "HTTPRoute",
  "ReferenceGrant",
];
