/**
 * The Gateway API features in `GatewayClass.status.supportedFeatures`: those whose conformance tests pass, see
 * `docs/conformance`. The names are those of the conformance suite, sorted.
 */
export const supportedFeatures: readonly string[] = [
  "BackendTLSPolicy",
  "BackendTLSPolicySANValidation",
  "GRPCRoute",
  "GRPCRouteNamedRouteRule",
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
  "TCPRoute",
  "TLSRoute",
  "TLSRouteModeMixed",
  "TLSRouteModeTerminate",
  "UDPRoute",
];

/**
 * Further supported features, whose fields are only in the CRDs of the experimental channel. They are not in the status
 * of a GatewayClass, because most clusters use the standard channel, in which the API server drops such fields
 * silently.
 */
export const experimentalFeatures: readonly string[] = [
  "HTTPRouteRetry",
  "HTTPRouteRetryBackendTimeout",
  "HTTPRouteRetryConnectionError",
];
