/**
 * The features of the Gateway API in `GatewayClass.status.supportedFeatures`: those whose conformance tests pass, see
 * `docs/conformance`, as far as the definitions of the cluster have their kinds and fields.
 */
import { kinds } from "../api/resource.ts";
import { fieldsOf, type KubeObject } from "../kube/object.ts";
import type { DefinedKind, Definitions } from "./definitions.ts";

/** A feature, by its name in the conformance suite, and what a definition needs for it. */
interface Feature {
  readonly name: string;
  readonly kind: DefinedKind;
  /**
   * The path of a field below `spec`, in items of lists too; undefined if each version of the kind has what it needs.
   */
  readonly field?: string;
  /** A value that the field must accept. */
  readonly value?: number | string;
}

/** Sorted by name. Fields are named if the definition of some release from 1.1 on lacks them. */
const features: readonly Feature[] = [
  { name: "BackendTLSPolicy", kind: "BackendTLSPolicy" },
  { name: "BackendTLSPolicySANValidation", kind: "BackendTLSPolicy", field: "validation.subjectAltNames" },
  { name: "GRPCRoute", kind: "GRPCRoute" },
  { name: "GRPCRouteNamedRouteRule", kind: "GRPCRoute", field: "rules.name" },
  { name: "GRPCRouteRequestHeaderModifier", kind: "GRPCRoute" },
  { name: "Gateway", kind: "Gateway" },
  { name: "GatewayAddressEmpty", kind: "Gateway" },
  { name: "GatewayBackendClientCertificate", kind: "Gateway", field: "tls.backend" },
  { name: "GatewayFrontendClientCertificateValidation", kind: "Gateway", field: "tls.frontend" },
  {
    name: "GatewayFrontendClientCertificateValidationInsecureFallback",
    kind: "Gateway",
    field: "tls.frontend.default.validation.mode",
    value: "AllowInsecureFallback",
  },
  { name: "GatewayHTTPListenerIsolation", kind: "Gateway" },
  { name: "GatewayHTTPSListenerDetectMisdirectedRequests", kind: "Gateway" },
  { name: "GatewayInfrastructure", kind: "Gateway", field: "infrastructure" },
  { name: "GatewayPort8080", kind: "Gateway" },
  { name: "GatewayRouteHostnameIntersectionPrecedence", kind: "Gateway" },
  { name: "GatewayStaticAddresses", kind: "Gateway" },
  { name: "HTTPRoute", kind: "HTTPRoute" },
  ...[303, 307, 308].map(
    (value): Feature => ({
      name: `HTTPRoute${value}RedirectStatusCode`,
      kind: "HTTPRoute",
      field: "rules.filters.requestRedirect.statusCode",
      value,
    }),
  ),
  { name: "HTTPRouteBackendProtocolH2C", kind: "HTTPRoute" },
  { name: "HTTPRouteBackendProtocolWebSocket", kind: "HTTPRoute" },
  { name: "HTTPRouteBackendRequestHeaderModification", kind: "HTTPRoute" },
  { name: "HTTPRouteBackendTimeout", kind: "HTTPRoute", field: "rules.timeouts.backendRequest" },
  { name: "HTTPRouteBackendURLRewrite", kind: "HTTPRoute" },
  { name: "HTTPRouteCORS", kind: "HTTPRoute", field: "rules.filters.cors" },
  { name: "HTTPRouteDestinationPortMatching", kind: "HTTPRoute" },
  { name: "HTTPRouteHostRewrite", kind: "HTTPRoute" },
  { name: "HTTPRouteMethodMatching", kind: "HTTPRoute" },
  { name: "HTTPRouteNamedRouteRule", kind: "HTTPRoute", field: "rules.name" },
  { name: "HTTPRouteParentRefPort", kind: "HTTPRoute" },
  { name: "HTTPRoutePathRedirect", kind: "HTTPRoute" },
  { name: "HTTPRoutePathRewrite", kind: "HTTPRoute" },
  { name: "HTTPRoutePortRedirect", kind: "HTTPRoute" },
  { name: "HTTPRouteQueryParamMatching", kind: "HTTPRoute" },
  { name: "HTTPRouteRequestMirror", kind: "HTTPRoute" },
  { name: "HTTPRouteRequestMultipleMirrors", kind: "HTTPRoute" },
  { name: "HTTPRouteRequestPercentageMirror", kind: "HTTPRoute", field: "rules.filters.requestMirror.percent" },
  { name: "HTTPRouteRequestTimeout", kind: "HTTPRoute", field: "rules.timeouts.request" },
  { name: "HTTPRouteResponseHeaderModification", kind: "HTTPRoute" },
  { name: "HTTPRouteRetryCodes", kind: "HTTPRoute", field: "rules.retry.codes" },
  { name: "HTTPRouteRetryConnectionError", kind: "HTTPRoute", field: "rules.retry" },
  { name: "HTTPRouteSchemeRedirect", kind: "HTTPRoute" },
  { name: "ListenerSet", kind: "ListenerSet" },
  { name: "ReferenceGrant", kind: "ReferenceGrant" },
  { name: "TCPRoute", kind: "TCPRoute" },
  { name: "TLSRoute", kind: "TLSRoute" },
  { name: "TLSRouteModeMixed", kind: "TLSRoute" },
  { name: "TLSRouteModeTerminate", kind: "TLSRoute" },
  { name: "UDPRoute", kind: "UDPRoute" },
];

/** The features of a cluster with the definitions of Gateway API 1.7, sorted. */
export const supportedFeatures: readonly string[] = features.map(({ name }) => name);

/**
 * Returns the features that the definitions of a cluster permit, sorted. Of a cluster whose definitions cannot be read,
 * that is all of them.
 */
export function permittedFeatures(definitions: Definitions): readonly string[] {
  if (definitions.size === 0) return supportedFeatures;
  return features.filter((feature) => permits(definitions, feature)).map(({ name }) => name);
}

function permits(definitions: Definitions, { kind, field, value }: Feature): boolean {
  const definition = definitions.get(kind);
  const read: readonly string[] = kinds[kind].versions;
  if (definition?.versions.some((version) => read.includes(version)) !== true) return false;
  if (field === undefined) return true;
  const schema = schemaAt(definition.spec, field.split("."));
  if (schema === undefined) return false;
  const { enum: accepted } = schema;
  return value === undefined || !Array.isArray(accepted) || accepted.includes(value);
}

/** The schema of a field, or undefined if the schema of an object does not declare it. */
function schemaAt(schema: KubeObject, [name, ...rest]: readonly string[]): KubeObject | undefined {
  if (name === undefined) return schema;
  const { properties } = schema["type"] === "array" ? fieldsOf(schema["items"]) : schema;
  const field = fieldsOf(properties)[name];
  return field === undefined ? undefined : schemaAt(fieldsOf(field), rest);
}
