/**
 * Features of the Gateway API that we claim (`GatewayClass.status.supportedFeatures`): those whose conformance tests
 * pass, see `docs/conformance`. Edit here; the names are the suite's, and the list is sorted.
 */
export const supportedFeatures: readonly string[] = [
  "BackendTLSPolicy",
  "BackendTLSPolicySANValidation",
  "Gateway",
  "GatewayAddressEmpty",
  "GatewayBackendClientCertificate",
  "GatewayFrontendClientCertificateValidation",
  "GatewayFrontendClientCertificateValidationInsecureFallback",
  "GatewayHTTPListenerIsolation",
  "GatewayHTTPSListenerDetectMisdirectedRequests",
  "GatewayInfrastructure",
  "GatewayPort8080",
  "GatewayStaticAddresses",
  "HTTPRoute",
  "HTTPRoute303RedirectStatusCode",
  "HTTPRoute307RedirectStatusCode",
  "HTTPRoute308RedirectStatusCode",
  "HTTPRouteBackendProtocolH2C",
  "HTTPRouteBackendProtocolWebSocket",
  "HTTPRouteBackendRequestHeaderModification",
  "HTTPRouteBackendTimeout",
  "HTTPRouteCORS",
  "HTTPRouteDestinationPortMatching",
  "HTTPRouteHostRewrite",
  "HTTPRouteMethodMatching",
  "HTTPRouteNamedRouteRule",
  "HTTPRouteParentRefPort",
  "HTTPRoutePathRedirect",
  "HTTPRoutePathRewrite",
  "HTTPRoutePortRedirect",
  "HTTPRouteQueryParamMatching",
  "HTTPRouteRequestMirror",
  "HTTPRouteRequestMultipleMirrors",
  "HTTPRouteRequestPercentageMirror",
  "HTTPRouteRequestTimeout",
  "HTTPRouteResponseHeaderModification",
  "HTTPRouteSchemeRedirect",
  "ListenerSet",
  "ReferenceGrant",
];

/**
 * What more is supported where the API server knows the fields, which are in the experimental channel's CRDs only. Not
 * claimed in a GatewayClass: most clusters have the standard channel, whose API server drops such fields unsaid.
 */
export const experimentalFeatures: readonly string[] = [
  "HTTPRouteRetry",
  "HTTPRouteRetryBackendTimeout",
  "HTTPRouteRetryConnectionError",
];
