/**
 * Resolves BackendTLSPolicies: which one applies to a port of a Service, and the TLS of the connection. Of several policies
 * on a target, the oldest applies. One for a port has precedence over one for the Service. If the policy that applies is
 * invalid, the Service cannot be called, since the connection must not be made without TLS.
 */
import type { Steps } from "@gatewayproxy/runtime/steps";
import type { BackendTlsPolicy, BackendTlsTargetRef, BackendTlsValidation } from "../../api/backend-tls-policy.ts";
import type { Service } from "../../api/service.ts";
import type { BackendTlsRejection, BackendTlsUnresolved } from "../../api/status.ts";
import type { SubjectAltName, UpstreamTls } from "../../ir/snapshot.ts";
import { AuthorityBudget } from "../tls/certificates.ts";
import { noValidAuthority } from "../tls/credentials.ts";
import { eachObjectInSteps, itself } from "../each-object.ts";
import type { Finding } from "../status/finding.ts";
import { memoised } from "../memoised.ts";
import { namedConfigMaps, type ReadableResources } from "../reference/named-objects.ts";
import { indexByName, nameKey, sortByAge } from "../index/object-names.ts";

/** A policy at one of its targets. */
export interface TlsTargetState {
  /** `namespace/name` of the Service. */
  readonly service: string;
  /** Why it does not apply there; undefined if it does. */
  readonly rejection: Finding<"Conflicted" | "TargetNotFound" | "Invalid"> | undefined;
}

export interface TlsPolicyState {
  readonly policy: BackendTlsPolicy;
  /** In the order of the targetRefs. */
  readonly targets: readonly TlsTargetState[];
  /** The TLS of connections; undefined if the policy is invalid. */
  readonly tls: UpstreamTls | undefined;
  /** Why it is invalid, or why it is not accepted while its previous authorities are in use. */
  readonly rejections: readonly Finding<"NoValidCACertificate" | "Invalid">[];
  readonly unresolved: readonly Finding<BackendTlsUnresolved>[];
  readonly unsupported: readonly Finding<"Unsupported">[];
}

/** The TLS of a port of a Service: none, that of a policy, or rejected with the policy. */
export type ServiceTls =
  | { readonly kind: "none" }
  | { readonly kind: "tls"; readonly tls: UpstreamTls }
  | { readonly kind: "rejected"; readonly message: string };

export interface ResolvedTlsPolicies {
  /** Oldest first. */
  readonly policies: readonly TlsPolicyState[];
  /** @param port its name; absent if the Service has one port. */
  readonly tlsOf: (service: Service, port: string | undefined) => ServiceTls;
}

const targetPath = (index: number) => ["spec", "targetRefs", index];
const validationPath = ["spec", "validation"];

export function* resolveTlsPolicies(resources: ReadableResources): Steps<ResolvedTlsPolicies> {
  const services = indexByName(resources.Service);
  const readReference = authoritiesReader(resources);
  /** By `namespace/service`, or `namespace/service#port`. */
  const holders = new Map<string, TlsPolicyState>();
  const sorted = sortByAge(resources.BackendTLSPolicy);
  const policies = yield* eachObjectInSteps(sorted, itself, function* (policy): Steps<TlsPolicyState> {
    const taken: string[] = [];
    const targets = policy.spec.targetRefs.map((ref, index): TlsTargetState => {
      const service = `${policy.metadata.namespace}/${ref.name}`;
      const place = ref.sectionName === undefined ? service : `${service}#${ref.sectionName}`;
      const rejection = targetFault(ref, services.get(service), service) ?? conflictOf(holders.get(place));
      if (rejection === undefined) taken.push(place);
      return { service, rejection: rejection && { ...rejection, path: targetPath(index) } };
    });
    const state = { policy, targets, ...(yield* resolveValidation(policy, readReference)) };
    for (const place of taken) holders.set(place, state);
    return state;
  });
  return {
    policies,
    tlsOf(service, port) {
      const holder = holders.get(`${nameKey(service)}#${port ?? ""}`) ?? holders.get(nameKey(service));
      if (holder === undefined) return { kind: "none" };
      if (holder.tls !== undefined) return { kind: "tls", tls: holder.tls };
      return { kind: "rejected", message: `BackendTLSPolicy ${nameKey(holder.policy)} is invalid` };
    },
  };
}

/** A Service may have thousands of ports, and be the target of thousands of policies. */
const portNames = memoised(({ spec }: Service) => new Set(spec.ports.map(({ name }) => name)));

type Fault = Omit<NonNullable<TlsTargetState["rejection"]>, "path">;

function targetFault(ref: BackendTlsTargetRef, service: Service | undefined, name: string): Fault | undefined {
  const { group, kind, sectionName } = ref;
  if (group !== "" || kind !== "Service") {
    return { reason: "Invalid", message: `kind ${kind} (group "${group}") is not a valid target, accepted is Service` };
  }
  if (service === undefined) return { reason: "TargetNotFound", message: `Service ${name} does not exist` };
  if (sectionName === undefined || portNames(service).has(sectionName)) return undefined;
  return { reason: "TargetNotFound", message: `Service ${name} has no port named ${sectionName}` };
}

function conflictOf(holder: TlsPolicyState | undefined): Fault | undefined {
  if (holder === undefined) return undefined;
  return {
    reason: "Conflicted",
    message: `BackendTLSPolicy ${nameKey(holder.policy)} has the same target and takes precedence`,
  };
}

type Validation = Pick<TlsPolicyState, "tls" | "rejections" | "unresolved" | "unsupported">;

function* resolveValidation({ metadata, spec }: BackendTlsPolicy, readReference: ReadReference): Steps<Validation> {
  const { validation, options } = spec;
  const unsupported = Object.keys(options).map((key) => ({
    reason: "Unsupported" as const,
    message: `option ${key} has no effect`,
    path: ["spec", "options", key],
  }));
  if (validation === undefined) {
    const message = "the current version is invalid, and no valid version is known: its targets are not called";
    return {
      tls: undefined,
      rejections: [{ reason: "Invalid", message, path: ["spec"] }],
      unresolved: [],
      unsupported,
    };
  }
  const { trust, rejections, unresolved } = yield* authoritiesOf(validation, metadata.namespace, readReference);
  if (trust === undefined) return { tls: undefined, rejections, unresolved, unsupported };
  const names = validation.subjectAltNames.flatMap(({ type, hostname, uri }): readonly SubjectAltName[] => {
    const value = type === "Hostname" ? hostname : uri;
    return value === undefined ? [] : [{ kind: type === "Hostname" ? "dns" : "uri", value }];
  });
  const tls: UpstreamTls = {
    hostname: validation.hostname,
    ...trust,
    ...(names.length > 0 && { subjectAltNames: names }),
  };
  return { tls, rejections, unresolved, unsupported };
}

interface Authorities extends Pick<TlsPolicyState, "rejections" | "unresolved"> {
  /** Empty for the authorities of the system. Absent if no authority is valid. */
  readonly trust?: Pick<UpstreamTls, "authorities">;
}

/** One that cannot be used leaves the others in force. */
function* authoritiesOf(
  { caCertificateRefs, wellKnownCACertificates }: BackendTlsValidation,
  namespace: string,
  readReference: ReadReference,
): Steps<Authorities> {
  if (wellKnownCACertificates === "System") return { trust: {}, rejections: [], unresolved: [] };
  if (wellKnownCACertificates !== undefined) {
    const message = `no authorities are known as ${wellKnownCACertificates}, accepted is System`;
    const path = [...validationPath, "wellKnownCACertificates"];
    return { rejections: [{ reason: "Invalid", message, path }], unresolved: [] };
  }
  const budget = new AuthorityBudget();
  const read: ReferredAuthorities[] = [];
  for (const ref of caCertificateRefs) {
    const referred = readReference(ref, namespace);
    const rejection = referred.pem === undefined ? undefined : budget.rejection(referred.pem);
    const message = `ConfigMap ${namespace}/${ref.name} ${rejection}`;
    read.push(rejection === undefined ? referred : { fault: { reason: "InvalidCACertificateRef", message } });
    yield;
  }
  const pems = read.flatMap(({ pem }) => pem ?? []);
  const unresolved = read.flatMap(({ fault }, index) =>
    fault === undefined ? [] : [{ ...fault, path: [...validationPath, "caCertificateRefs", index] }],
  );
  const trust = pems.length > 0 && { trust: { authorities: pems } };
  if (unresolved.length < read.length) return { ...trust, rejections: [], unresolved };
  const message = noValidAuthority("the servers", pems.length > 0);
  const path = [...validationPath, "caCertificateRefs"];
  return { ...trust, rejections: [{ reason: "NoValidCACertificate", message, path }], unresolved };
}

/** The result of a reference to authorities; both members if the previous content is in use. */
interface ReferredAuthorities {
  readonly pem?: string;
  readonly fault?: Omit<Finding<BackendTlsUnresolved>, "path">;
}

type ReadReference = (ref: BackendTlsValidation["caCertificateRefs"][number], namespace: string) => ReferredAuthorities;

function authoritiesReader(resources: ReadableResources): ReadReference {
  const configMaps = namedConfigMaps(resources);
  const { authorities } = resources.credentials;
  return ({ group, kind, name }, namespace) => {
    if (group !== "" || kind !== "ConfigMap") {
      const message = `kind ${kind} (group "${group}") contains no authorities, accepted is ConfigMap`;
      return { fault: { reason: "InvalidKind", message } };
    }
    const source = `${namespace}/${name}`;
    const configMap = configMaps.get(source);
    const held = configMap && authorities(configMap);
    const pem = held !== undefined && held.kind !== "malformed" ? { pem: held.value } : {};
    if (held?.kind === "read") return pem;
    const message = `ConfigMap ${source} ${held?.fault ?? configMaps.absence(source)}`;
    return { ...pem, fault: { reason: "InvalidCACertificateRef", message } };
  };
}

/** Returns all errors of a policy, for people. */
export function tlsPolicyFindings(
  state: TlsPolicyState,
): readonly Finding<BackendTlsRejection | BackendTlsUnresolved | "Unsupported">[] {
  const targets = state.targets.flatMap(({ rejection }) => rejection ?? []);
  return [...targets, ...state.rejections, ...state.unresolved, ...state.unsupported];
}
