/**
 * The client certificate of a Gateway for backends (Gateway API `GatewayBackendTLS`). Connections to a backend then differ
 * between Gateways, so the snapshot has the backend once for each such Gateway.
 */
import type { Gateway } from "../../api/gateway.ts";
import type { Filter } from "../../ir/filter.ts";
import type { Backend, BackendKey, BackendRef, Certificate, ClientCertificate } from "../../ir/snapshot.ts";
import type { Finding } from "../status/finding.ts";
import { certificateResolver } from "../tls/listener-tls.ts";
import type { ReadableResources } from "../reference/named-objects.ts";
import { nameKey } from "../index/object-names.ts";
import type { RuleWithoutLimits } from "../route/rules.ts";

/** The resolved reference of a Gateway to its client certificate. */
export interface ResolvedClientCertificate {
  /** Absent if there is no reference, or it is invalid. */
  readonly certificate: ClientCertificate | undefined;
  readonly unresolved: readonly Finding<"InvalidClientCertificateRef" | "RefNotPermitted">[];
}

const path = ["spec", "tls", "backend", "clientCertificateRef"];

export function clientCertificateResolver(
  resources: ReadableResources,
): (gateway: Gateway) => ResolvedClientCertificate {
  const resolve = certificateResolver(resources);
  return (gateway) => {
    const ref = gateway.spec.tls?.backend?.clientCertificateRef;
    if (ref === undefined) return { certificate: undefined, unresolved: [] };
    const resolved = resolve(gateway, ref);
    const certificate = "value" in resolved ? clientCertificateOf(resolved.value) : undefined;
    if (resolved.kind === "resolved") return { certificate, unresolved: [] };
    const { message } = resolved;
    const reason = resolved.reason === "RefNotPermitted" ? resolved.reason : "InvalidClientCertificateRef";
    return { certificate, unresolved: [{ reason, message, path }] };
  };
}

function clientCertificateOf({ chain, privateKey }: Certificate): ClientCertificate {
  return { chain, privateKey };
}

/** The Gateway that connects to backends. */
export interface Caller {
  readonly gateway: Gateway;
  readonly clientCertificate: ResolvedClientCertificate;
}

/** Returns a backend with the client certificate of a Gateway, unless it has its own. */
export function backendFor({ gateway, clientCertificate: { certificate } }: Caller, backend: Backend): Backend {
  const { key, tls } = backend;
  if (certificate === undefined || tls === undefined || tls.clientCertificate !== undefined) return backend;
  return { ...backend, key: `${key} for ${nameKey(gateway)}`, tls: { ...tls, clientCertificate: certificate } };
}

/** Returns a rule with references to these backends. */
export function ruleFor(caller: Caller, rule: RuleWithoutLimits, backends: readonly Backend[]): RuleWithoutLimits {
  if (caller.clientCertificate.certificate === undefined) return rule;
  const keys = new Map(backends.map((backend) => [backend.key, backendFor(caller, backend).key]));
  const keyOf = (key: BackendKey): BackendKey => keys.get(key) ?? key;
  const filtersFor = (filters: readonly Filter[]): readonly Filter[] =>
    filters.map((filter) => (filter.kind === "RequestMirror" ? { ...filter, backend: keyOf(filter.backend) } : filter));
  const refFor = (ref: BackendRef): BackendRef =>
    ref.kind === "backend" ? { ...ref, backend: keyOf(ref.backend), filters: filtersFor(ref.filters) } : ref;
  return { ...rule, filters: filtersFor(rule.filters), backendRefs: rule.backendRefs.map(refFor) };
}
