/** References to ConfigMaps with authorities, of which one trust store may have several. */
import { isConfigMap } from "../reference/owner-references.ts";
import type { ProblemCode } from "../../api/resource-problem.ts";
import type { Resolution } from "../reference/resolution.ts";
import type { Finding } from "../status/finding.ts";
import { memoised } from "@gatewayproxy/runtime/memoised";
import { AuthorityBudget, type CertificateCounts } from "./certificates.ts";
import type { Credentials } from "./credentials.ts";

/** A reference to authorities of any kind. */
export interface AuthorityReference {
  readonly group: string;
  readonly kind: string;
  readonly name: string;
  readonly namespace?: string | undefined;
}

/** One translation reads an object of a name once. */
const countsOf = memoised<Credentials, CertificateCounts>(() => new Map());

/** Opens the budget of a trust store. */
export function openAuthorityBudget(credentials: Credentials): AuthorityBudget {
  return new AuthorityBudget(countsOf(credentials));
}

/**
 * Resolves a reference to the authorities of a trust store.
 *
 * @param wrongKind the reason for a referent that is not a ConfigMap.
 * @param name `namespace/name` of the referent.
 * @param resolve resolves a reference to a ConfigMap.
 */
export function resolveAuthorities<WrongKind extends string, Reason extends string>(
  ref: AuthorityReference,
  name: string,
  budget: AuthorityBudget,
  wrongKind: WrongKind,
  resolve: () => Resolution<string, Reason>,
): Resolution<string, WrongKind | Reason | "InvalidCACertificateRef"> {
  if (!isConfigMap(ref)) {
    const message = `kind ${ref.kind} (group "${ref.group}") contains no authorities, accepted is ConfigMap`;
    return { kind: "unresolved", reason: wrongKind, message };
  }
  const resolution = resolve();
  const rejection = resolution.kind === "unresolved" ? undefined : budget.rejection(resolution.value, name);
  if (rejection === undefined) return resolution;
  return { kind: "unresolved", reason: "InvalidCACertificateRef", message: `ConfigMap ${name} ${rejection}` };
}

/**
 * Returns the code of the problem that no authority is valid; undefined if one of them exists.
 *
 * @param findings of the references.
 */
export function codeOfNoAuthority(findings: readonly Finding[]): ProblemCode | undefined {
  return findings.every(({ code }) => code !== undefined) ? "NoValidAuthority" : undefined;
}
