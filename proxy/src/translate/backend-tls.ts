/**
 * BackendTLSPolicies: which one holds for which port of which Service, and what it makes of the connection. Of several on
 * one target the oldest holds; one that names a port goes before one that names the Service. Where the one that holds
 * cannot be used the Service cannot be called: what was to be protected never travels in the clear.
 */
import type { BackendTlsPolicy, BackendTlsTargetRef, BackendTlsValidation } from "../api/backend-tls-policy.ts";
import type { ConfigMap } from "../api/config-map.ts";
import type { Service } from "../api/service.ts";
import type { BackendTlsRefusal, BackendTlsUnresolved } from "../api/status.ts";
import type { SubjectAltName, UpstreamTls } from "../ir/snapshot.ts";
import { readAuthorities } from "./certificates.ts";
import type { Finding } from "./finding.ts";
import { type NamedObjects, namedConfigMaps, type ReadableResources } from "./named-objects.ts";
import { indexByName, nameKey, sortByAge } from "./object-names.ts";

/** A policy at one of its targets. */
export interface TlsTargetState {
  /** `namespace/name` of the Service. */
  readonly service: string;
  /** Why it does not hold there; absent where it does. */
  readonly refusal: Finding<"Conflicted" | "TargetNotFound" | "Invalid"> | undefined;
}

export interface TlsPolicyState {
  readonly policy: BackendTlsPolicy;
  /** In the order of the targetRefs. */
  readonly targets: readonly TlsTargetState[];
  /** How servers are connected to; absent where that cannot be known. */
  readonly tls: UpstreamTls | undefined;
  /** Why not. */
  readonly refusals: readonly Finding<"NoValidCACertificate" | "Invalid">[];
  readonly unresolved: readonly Finding<BackendTlsUnresolved>[];
  readonly unserved: readonly Finding<"Unserved">[];
}

/** TLS of a Service's port: none, as a policy says, or refused for its fault. */
export type ServiceTls =
  | { readonly kind: "none" }
  | { readonly kind: "tls"; readonly tls: UpstreamTls }
  | { readonly kind: "refused"; readonly message: string };

export interface JudgedTlsPolicies {
  /** Oldest first. */
  readonly policies: readonly TlsPolicyState[];
  /** @param port its name; absent where the Service has one port. */
  readonly tlsOf: (service: Service, port: string | undefined) => ServiceTls;
}

const targetPath = (index: number) => ["spec", "targetRefs", index];
const validationPath = ["spec", "validation"];

export function judgeTlsPolicies(resources: ReadableResources): JudgedTlsPolicies {
  const services = indexByName(resources.Service);
  const configMaps = namedConfigMaps(resources);
  /** By `namespace/service`, or `namespace/service#port`. */
  const holders = new Map<string, TlsPolicyState>();
  const policies = sortByAge(resources.BackendTLSPolicy).map((policy): TlsPolicyState => {
    const taken: string[] = [];
    const targets = policy.spec.targetRefs.map((ref, index): TlsTargetState => {
      const service = `${policy.metadata.namespace}/${ref.name}`;
      const place = ref.sectionName === undefined ? service : `${service}#${ref.sectionName}`;
      const refusal = targetFault(ref, services.get(service), service) ?? conflictOf(holders.get(place));
      if (refusal === undefined) taken.push(place);
      return { service, refusal: refusal && { ...refusal, path: targetPath(index) } };
    });
    const state = { policy, targets, ...judgeValidation(policy, configMaps) };
    for (const place of taken) holders.set(place, state);
    return state;
  });
  return {
    policies,
    tlsOf(service, port) {
      const holder = holders.get(`${nameKey(service)}#${port ?? ""}`) ?? holders.get(nameKey(service));
      if (holder === undefined) return { kind: "none" };
      if (holder.tls !== undefined) return { kind: "tls", tls: holder.tls };
      return { kind: "refused", message: `BackendTLSPolicy ${nameKey(holder.policy)} cannot be used` };
    },
  };
}

type Fault = Omit<NonNullable<TlsTargetState["refusal"]>, "path">;

function targetFault(ref: BackendTlsTargetRef, service: Service | undefined, name: string): Fault | undefined {
  const { group, kind, sectionName } = ref;
  if (group !== "" || kind !== "Service") {
    return { reason: "Invalid", message: `kind ${kind} (group "${group}") is no target, accepted is Service` };
  }
  if (service === undefined) return { reason: "TargetNotFound", message: `Service ${name} does not exist` };
  if (sectionName === undefined || service.spec.ports.some((port) => port.name === sectionName)) return undefined;
  return { reason: "TargetNotFound", message: `Service ${name} has no port named ${sectionName}` };
}

function conflictOf(holder: TlsPolicyState | undefined): Fault | undefined {
  if (holder === undefined) return undefined;
  return {
    reason: "Conflicted",
    message: `BackendTLSPolicy ${nameKey(holder.policy)} has the same target and goes first`,
  };
}

type Judged = Pick<TlsPolicyState, "tls" | "refusals" | "unresolved" | "unserved">;

function judgeValidation({ metadata, spec }: BackendTlsPolicy, configMaps: NamedObjects<ConfigMap>): Judged {
  const { validation, options } = spec;
  const unserved = Object.keys(options).map((key) => ({
    reason: "Unserved" as const,
    message: `option ${key} has no effect`,
    path: ["spec", "options", key],
  }));
  if (validation === undefined) {
    const message = "this version is refused and no sound one is known: its targets are not called";
    return { tls: undefined, refusals: [{ reason: "Invalid", message, path: ["spec"] }], unresolved: [], unserved };
  }
  const authorities = authoritiesOf(validation, metadata.namespace, configMaps);
  const { refusals, unresolved, pem } = authorities;
  if (refusals.length > 0) return { tls: undefined, refusals, unresolved, unserved };
  const names = validation.subjectAltNames.flatMap(({ type, hostname, uri }): readonly SubjectAltName[] => {
    const value = type === "Hostname" ? hostname : uri;
    return value === undefined ? [] : [{ kind: type === "Hostname" ? "dns" : "uri", value }];
  });
  const tls: UpstreamTls = {
    hostname: validation.hostname,
    ...(pem !== undefined && { authorities: pem }),
    ...(names.length > 0 && { subjectAltNames: names }),
  };
  return { tls, refusals, unresolved, unserved };
}

interface Authorities extends Pick<TlsPolicyState, "refusals" | "unresolved"> {
  /** Absent: those of the system. */
  readonly pem?: string;
}

/** One that cannot be used leaves the others in force. */
function authoritiesOf(
  { caCertificateRefs, wellKnownCACertificates }: BackendTlsValidation,
  namespace: string,
  configMaps: NamedObjects<ConfigMap>,
): Authorities {
  if (wellKnownCACertificates === "System") return { refusals: [], unresolved: [] };
  if (wellKnownCACertificates !== undefined) {
    const message = `no authorities are known as ${wellKnownCACertificates}, accepted is System`;
    const path = [...validationPath, "wellKnownCACertificates"];
    return { refusals: [{ reason: "Invalid", message, path }], unresolved: [] };
  }
  const read = caCertificateRefs.map((ref, index) => {
    const path = [...validationPath, "caCertificateRefs", index];
    return readReference(ref, namespace, configMaps, path);
  });
  const pems = read.filter((each) => typeof each === "string");
  const unresolved = read.filter((each) => typeof each !== "string");
  if (pems.length > 0) return { pem: pems.join("\n"), refusals: [], unresolved };
  const message = "no certificate of an authority can be used to validate the servers";
  const path = [...validationPath, "caCertificateRefs"];
  return { refusals: [{ reason: "NoValidCACertificate", message, path }], unresolved };
}

function readReference(
  { group, kind, name }: BackendTlsValidation["caCertificateRefs"][number],
  namespace: string,
  configMaps: NamedObjects<ConfigMap>,
  path: Finding["path"],
): string | Finding<BackendTlsUnresolved> {
  if (group !== "" || kind !== "ConfigMap") {
    const message = `kind ${kind} (group "${group}") holds no authorities, accepted is ConfigMap`;
    return { reason: "InvalidKind", message, path };
  }
  const source = `${namespace}/${name}`;
  const configMap = configMaps.get(source);
  if (configMap === undefined) {
    const message = `ConfigMap ${source} ${configMaps.absence(source)}`;
    return { reason: "InvalidCACertificateRef", message, path };
  }
  const authorities = readAuthorities(configMap);
  if (authorities.kind === "read") return authorities.value;
  return { reason: "InvalidCACertificateRef", message: authorities.message, path };
}

/** Everything that is wrong with a policy, for people. */
export function tlsPolicyFindings(
  state: TlsPolicyState,
): readonly Finding<BackendTlsRefusal | BackendTlsUnresolved | "Unserved">[] {
  const targets = state.targets.flatMap(({ refusal }) => refusal ?? []);
  return [...targets, ...state.refusals, ...state.unresolved, ...state.unserved];
}
