/**
 * Resolves BackendTLSPolicies: which one applies to a port of a Service, and the TLS of the connection. Of several
 * policies on a target, the oldest applies. One for a port has precedence over one for the Service. If the policy that
 * applies is invalid, the Service cannot be called, since the connection must not be made without TLS.
 */
import type { Steps } from "@gatewayproxy/runtime/steps";
import type { BackendTlsPolicy, BackendTlsTargetRef, BackendTlsValidation } from "../../api/backend-tls-policy.ts";
import type { Service } from "../../api/service.ts";
import type { BackendTlsUnresolved } from "../../api/status.ts";
import type { SubjectAltName, UpstreamTls } from "../../ir/snapshot.ts";
import { codeOfNoAuthority, openAuthorityBudget, resolveAuthorities } from "../tls/authorities.ts";
import { noValidAuthority } from "../tls/credentials.ts";
import { eachObjectInSteps, itself } from "../each-object.ts";
import type { TranslationContext } from "../context.ts";
import { anyNameIn, compareNames, nameKey, sortByAge } from "../index/object-names.ts";
import { groupedBy } from "@gatewayproxy/runtime/lists";
import { keepingEqual, memoised } from "@gatewayproxy/runtime/memoised";
import { readConfigMap } from "../reference/resolution.ts";
import { type Finding, findingOfReference, type Found } from "../status/finding.ts";
import type { FindingOf } from "../status/findings-table.ts";

/** A policy at one of its targets. */
export interface TlsTargetState {
  /** `namespace/name` of the Service. */
  readonly service: string;
  /** Why it does not apply there; undefined if it does. */
  readonly rejection: Finding<"Conflicted" | "TargetNotFound" | "Invalid"> | undefined;
}

/** A BackendTLSPolicy with its targets and its validation. */
export interface TlsPolicyState {
  readonly policy: BackendTlsPolicy;
  /** In the order of the targetRefs. */
  readonly targets: readonly TlsTargetState[];
  /** The TLS of connections; undefined if the policy is invalid. */
  readonly tls: UpstreamTls | undefined;
  /** Of the policy, without those of its targets. It is not accepted while its previous authorities are in use. */
  readonly findings: readonly FindingOf<"BackendTLSPolicy">[];
}

/** The TLS of a port of a Service: none, that of a policy, or rejected with the policy. */
export type ServiceTls =
  | { readonly kind: "none" }
  | { readonly kind: "tls"; readonly tls: UpstreamTls }
  | { readonly kind: "rejected"; readonly message: string };

/** All policies, and the TLS of each Service. */
export interface ResolvedTlsPolicies {
  /** Oldest first. */
  readonly policies: readonly TlsPolicyState[];
  /** @param port its name; absent if the Service has one port. */
  readonly tlsOf: (service: Service, port: string | undefined) => ServiceTls;
}

/**
 * Returns the states of the policies of each Service, by `namespace/name`, and those of rejected ones without known
 * targets by `anyNameIn`: the same list for the same states.
 */
export const tlsStatesByService = groupedBy<TlsPolicyState>(
  ({ policy, targets }) =>
    targets.length === 0 ? [anyNameIn(policy.metadata.namespace)] : [...new Set(targets.map(({ service }) => service))],
  (a, b) => compareNames(a.policy, b.policy),
);

/** Services and rules with the TLS of an unchanged policy stay as they are. */
const keptState = keepingEqual<TlsPolicyState>();

const noTls: ServiceTls = { kind: "none" };

const targetPath = (index: number) => ["spec", "targetRefs", index];
const validationPath = ["spec", "validation"];

/** Resolves all BackendTLSPolicies. */
export function* resolveTlsPolicies(context: TranslationContext): Steps<ResolvedTlsPolicies> {
  const { resources, services } = context.index;
  /** By `namespace/service`, or `namespace/service#port`. */
  const holders = new Map<string, TlsPolicyState>();
  const sorted = sortByAge(resources.BackendTLSPolicy);
  const policies = yield* eachObjectInSteps(sorted, itself, function* (policy): Steps<TlsPolicyState> {
    const taken: string[] = [];
    const targets = policy.spec.targetRefs.map((ref, index): TlsTargetState => {
      const service = `${policy.metadata.namespace}/${ref.name}`;
      const place = ref.sectionName === undefined ? service : `${service}#${ref.sectionName}`;
      const rejection = targetRejection(ref, services.get(service), service) ?? conflictOf(holders.get(place));
      if (rejection === undefined) taken.push(place);
      return { service, rejection: rejection && { ...rejection, path: targetPath(index) } };
    });
    const { value: tls, findings } = yield* resolveValidation(context, policy);
    const state = keptState(policy, { policy, targets, tls, findings });
    if (targets.length === 0) taken.push(anyNameIn(policy.metadata.namespace));
    for (const place of taken) holders.set(place, state);
    return state;
  });
  return {
    policies,
    tlsOf(service, port) {
      if (holders.size === 0) return noTls;
      const holder =
        holders.get(`${nameKey(service)}#${port ?? ""}`) ??
        holders.get(nameKey(service)) ??
        holders.get(anyNameIn(service.metadata.namespace));
      if (holder === undefined) return noTls;
      if (holder.tls !== undefined) return { kind: "tls", tls: holder.tls };
      return { kind: "rejected", message: `BackendTLSPolicy ${nameKey(holder.policy)} is invalid` };
    },
  };
}

/** A Service may have thousands of ports, and be the target of thousands of policies. */
const portNames = memoised(({ spec }: Service) => new Set(spec.ports.map(({ name }) => name)));

type Rejection = Omit<NonNullable<TlsTargetState["rejection"]>, "path">;

function targetRejection(ref: BackendTlsTargetRef, service: Service | undefined, name: string): Rejection | undefined {
  const { group, kind, sectionName } = ref;
  if (group !== "" || kind !== "Service") {
    return { reason: "Invalid", message: `kind ${kind} (group "${group}") is not a valid target, accepted is Service` };
  }
  if (service === undefined) {
    return { reason: "TargetNotFound", message: `Service ${name} does not exist`, code: "ReferentNotFound" };
  }
  if (sectionName === undefined || portNames(service).has(sectionName)) return undefined;
  return { reason: "TargetNotFound", message: `Service ${name} has no port named ${sectionName}` };
}

function conflictOf(holder: TlsPolicyState | undefined): Rejection | undefined {
  if (holder === undefined) return undefined;
  return {
    reason: "Conflicted",
    message: `BackendTLSPolicy ${nameKey(holder.policy)} has the same target and takes precedence`,
  };
}

type ValidationReason = FindingOf<"BackendTLSPolicy">["reason"];

/** Returns the TLS of a policy; undefined if it is invalid. */
function* resolveValidation(
  context: TranslationContext,
  policy: BackendTlsPolicy,
): Steps<Found<UpstreamTls | undefined, ValidationReason>> {
  const { validation, options } = policy.spec;
  const unsupported = Object.keys(options).map((key) => ({
    reason: "Unsupported" as const,
    message: `option ${key} has no effect`,
    path: ["spec", "options", key],
  }));
  if (validation === undefined) {
    const message = "the current version is invalid, and no valid version is known: its targets are not called";
    return { value: undefined, findings: [{ reason: "Invalid", message, path: ["spec"] }, ...unsupported] };
  }
  const trust = yield* resolveTrust(context, policy, validation);
  const findings = [...trust.findings, ...unsupported];
  if (trust.value === undefined) return { value: undefined, findings };
  const names = validation.subjectAltNames.flatMap(({ type, hostname, uri }): readonly SubjectAltName[] => {
    const value = type === "Hostname" ? hostname : uri;
    return value === undefined ? [] : [{ kind: type === "Hostname" ? "dns" : "uri", value }];
  });
  const tls: UpstreamTls = {
    hostname: validation.hostname,
    ...trust.value,
    ...(names.length > 0 && { subjectAltNames: names }),
  };
  return { value: tls, findings };
}

/** The trusted authorities; absent for those of the system. */
type Trust = Pick<UpstreamTls, "authorities">;

/**
 * Returns the authorities of a policy; undefined if no authority is valid. One that cannot be used leaves the others in
 * force.
 */
function* resolveTrust(
  context: TranslationContext,
  { metadata: { namespace } }: BackendTlsPolicy,
  { caCertificateRefs, wellKnownCACertificates }: BackendTlsValidation,
): Steps<Found<Trust | undefined, ValidationReason>> {
  if (wellKnownCACertificates === "System") return { value: {}, findings: [] };
  if (wellKnownCACertificates !== undefined) {
    const message = `no authorities are known as ${wellKnownCACertificates}, accepted is System`;
    const path = [...validationPath, "wellKnownCACertificates"];
    return { value: undefined, findings: [{ reason: "Invalid", message, path }] };
  }
  const budget = openAuthorityBudget(context.credentials);
  const authorities: string[] = [];
  const findings: Finding<BackendTlsUnresolved>[] = [];
  for (const [index, ref] of caCertificateRefs.entries()) {
    const resolution = resolveAuthorities(ref, `${namespace}/${ref.name}`, budget, "InvalidKind", () =>
      readConfigMap(context, namespace, ref.name, context.credentials.authorities, "InvalidCACertificateRef"),
    );
    if (resolution.kind !== "unresolved") authorities.push(resolution.value);
    if (resolution.kind !== "resolved") {
      findings.push(findingOfReference(resolution, [...validationPath, "caCertificateRefs", index]));
    }
    yield;
  }
  const value = authorities.length > 0 ? { authorities } : undefined;
  if (findings.length < caCertificateRefs.length) return { value, findings };
  const message = noValidAuthority("the servers", authorities.length > 0);
  const path = [...validationPath, "caCertificateRefs"];
  const code = codeOfNoAuthority(findings);
  return { value, findings: [{ reason: "NoValidCACertificate", message, path, code }, ...findings] };
}
