/**
 * The client certificate of a Gateway for backends (Gateway API `GatewayBackendTLS`). Connections to a backend then
 * differ between Gateways, so the snapshot has the backend once for each such Gateway.
 */
import { keepingEqual } from "@gatewayproxy/runtime/memoised";
import type { Gateway } from "../../api/gateway.ts";
import type { Filter } from "../../ir/filter.ts";
import type { Backend, BackendKey, BackendRef, Certificate, ClientCertificate } from "../../ir/snapshot.ts";
import type { TranslationContext } from "../context.ts";
import { nameKey } from "../index/object-names.ts";
import type { RuleWithoutLimits } from "../route/rules.ts";
import { findingOfReference, type Found } from "../status/finding.ts";
import { resolveCertificate } from "../tls/listener-tls.ts";

const path = ["spec", "tls", "backend", "clientCertificateRef"];

/** Resolves the client certificate of a Gateway; undefined if there is no reference, or it is invalid. */
export function resolveClientCertificate(
  context: TranslationContext,
  gateway: Gateway,
): Found<ClientCertificate | undefined, "InvalidClientCertificateRef" | "RefNotPermitted"> {
  const ref = gateway.spec.tls?.backend?.clientCertificateRef;
  if (ref === undefined) return { value: undefined, findings: [] };
  const resolved = resolveCertificate(context, gateway, ref);
  const value = resolved.kind === "unresolved" ? undefined : clientCertificateOf(resolved.value);
  if (resolved.kind === "resolved") return { value, findings: [] };
  const reason = resolved.reason === "RefNotPermitted" ? resolved.reason : "InvalidClientCertificateRef";
  return { value, findings: [findingOfReference({ ...resolved, reason }, path)] };
}

function clientCertificateOf({ chain, privateKey }: Certificate): ClientCertificate {
  return { chain, privateKey };
}

/** The Gateway that connects to backends. */
export interface Caller {
  readonly gateway: Gateway;
  /** Undefined if it has none. */
  readonly clientCertificate: ClientCertificate | undefined;
}

const keptCaller = keepingEqual<Caller>();

/** Returns the same value while the certificate stays, whatever changes in the listeners of the Gateway. */
export function callerOf(gateway: Gateway, clientCertificate: ClientCertificate | undefined): Caller {
  return keptCaller(gateway, { gateway, clientCertificate });
}

/**
 * Returns a backend with the client certificate of a Gateway, unless it has its own.
 *
 * @param beside the backends of the same rule, with those of its providers.
 */
export function backendFor(caller: Caller, backend: Backend, beside: Iterable<Backend>): Backend {
  const { gateway, clientCertificate } = caller;
  const { key, tls, failover } = backend;
  if (clientCertificate === undefined) return backend;
  const ownKey = `${key} for ${nameKey(gateway)}`;
  if (failover !== undefined) {
    const keyOf = keysFor(caller, beside);
    const providers = failover.providers.map((each) => ({ ...each, backend: keyOf(each.backend) }));
    return { ...backend, key: ownKey, failover: { ...failover, providers } };
  }
  if (tls === undefined || tls.clientCertificate !== undefined) return backend;
  return { ...backend, key: ownKey, tls: { ...tls, clientCertificate } };
}

/** Returns the keys of backends at a Gateway, by their keys. */
function keysFor(caller: Caller, backends: Iterable<Backend>): (key: BackendKey) => BackendKey {
  const single = [...backends].filter(({ failover }) => failover === undefined);
  const keys = new Map(single.map((backend) => [backend.key, backendFor(caller, backend, []).key]));
  return (key) => keys.get(key) ?? key;
}

/** Returns a rule with references to these backends. */
export function ruleFor(caller: Caller, rule: RuleWithoutLimits, backends: readonly Backend[]): RuleWithoutLimits {
  if (caller.clientCertificate === undefined) return rule;
  const keyOf = keysOf(caller, backends);
  const filtersFor = (filters: readonly Filter[]): readonly Filter[] =>
    filters.map((filter) => (filter.kind === "RequestMirror" ? { ...filter, backend: keyOf(filter.backend) } : filter));
  const refFor = (ref: BackendRef): BackendRef =>
    ref.kind === "backend" ? { ...ref, backend: keyOf(ref.backend), filters: filtersFor(ref.filters) } : ref;
  return { ...rule, filters: filtersFor(rule.filters), backendRefs: rule.backendRefs.map(refFor) };
}

/** Returns backendRefs without filters with references to these backends. */
export function refsFor(
  caller: Caller,
  refs: readonly BackendRef[],
  backends: readonly Backend[],
): readonly BackendRef[] {
  if (caller.clientCertificate === undefined) return refs;
  const keyOf = keysOf(caller, backends);
  return refs.map((ref) => (ref.kind === "backend" ? { ...ref, backend: keyOf(ref.backend) } : ref));
}

function keysOf(caller: Caller, backends: readonly Backend[]): (key: BackendKey) => BackendKey {
  const keys = new Map(backends.map((backend) => [backend.key, backendFor(caller, backend, backends).key]));
  return (key) => keys.get(key) ?? key;
}
