/**
 * The condition that a finding sets to False, by the kind of the object and the reason of the finding. Every finding is
 * also a problem of its object (`problems.ts`).
 */
import type { Finding } from "./finding.ts";

/** For fields without an effect: the finding sets no condition to False, and the message of Accepted contains it. */
const named = "named by Accepted";

const table = {
  GatewayClass: { InvalidParameters: "Accepted" },
  Gateway: {
    Invalid: "Accepted",
    InvalidParameters: "Accepted",
    TooManyListenersInAll: "Accepted",
    UnsupportedAddress: "Accepted",
    AddressNotUsable: "Programmed",
    InvalidClientCertificateRef: "ResolvedRefs",
    RefNotPermitted: "ResolvedRefs",
    Unsupported: named,
  },
  Listener: {
    PortUnavailable: "Accepted",
    UnsupportedProtocol: "Accepted",
    UnsupportedValue: "Accepted",
    NoValidCACertificate: "Accepted",
    HostnameConflict: "Accepted",
    ProtocolConflict: "Accepted",
    InvalidCertificateRef: "ResolvedRefs",
    InvalidCACertificateRef: "ResolvedRefs",
    InvalidCACertificateKind: "ResolvedRefs",
    InvalidRouteKinds: "ResolvedRefs",
    RefNotPermitted: "ResolvedRefs",
    Unsupported: named,
  },
  ListenerSet: {
    Invalid: "Accepted",
    NotAllowed: "Accepted",
    ParentNotAccepted: "Accepted",
    TooManyListeners: "Accepted",
    TooManyListenersInAll: "Accepted",
  },
  /** A rule with a finding of Accepted is not served. The route is not accepted if no rule is. */
  Rule: {
    UnsupportedValue: "Accepted",
    IncompatibleFilters: "Accepted",
    RefNotPermitted: "ResolvedRefs",
    InvalidKind: "ResolvedRefs",
    BackendNotFound: "ResolvedRefs",
    UnsupportedProtocol: "ResolvedRefs",
    ForbiddenAddress: "ResolvedRefs",
    Unsupported: named,
  },
  BackendTLSPolicy: {
    Invalid: "Accepted",
    NoValidCACertificate: "Accepted",
    InvalidCACertificateRef: "ResolvedRefs",
    InvalidKind: "ResolvedRefs",
    Unsupported: named,
  },
  ProxyPolicy: { Invalid: "Accepted" },
  Backend: {
    ForbiddenAddress: "Accepted",
    InvalidSecretRef: "Accepted",
    InvalidProvider: "Accepted",
    IncompatibleProviders: "Accepted",
  },
} as const;

type Kind = keyof typeof table;

/** The findings of objects of a kind. */
export type FindingOf<K extends Kind> = Finding<keyof (typeof table)[K] & string>;

/** The reasons that set a condition to False. */
type ReasonOf<K extends Kind, Type extends string> = {
  [Reason in keyof (typeof table)[K]]: (typeof table)[K][Reason] extends Type ? Reason : never;
}[keyof (typeof table)[K]] &
  string;

/** Returns the findings that set a condition to False. */
export function findingsOf<K extends Kind, Type extends "Accepted" | "Programmed" | "ResolvedRefs">(
  kind: K,
  type: Type,
  findings: readonly FindingOf<K>[],
): readonly Finding<ReasonOf<K, Type>>[] {
  return findings.filter((finding): finding is Finding<ReasonOf<K, Type>> => conditionOf(kind, finding) === type);
}

/** Returns the findings of fields without an effect. */
export function findingsWithoutEffect<K extends Kind>(kind: K, findings: readonly FindingOf<K>[]): readonly Finding[] {
  return findings.filter((finding) => conditionOf(kind, finding) === named);
}

function conditionOf(kind: Kind, { reason }: Finding): string | undefined {
  const conditions: Readonly<Record<string, string>> = table[kind];
  return conditions[reason];
}
