/**
 * The claims of which only one file may hold each: its domain or, where domains are merged, each of its top-level keys.
 * Conflicts are reported with envoyproxy/ratelimit's messages.
 */
import type { SourceLocation } from "@gatewayproxy/runtime/problem";
import type { ConfigProblem } from "./config-problem.ts";
import type { DomainSpec } from "./descriptor-spec.ts";
import { shownComposite } from "./rule.ts";

/** A name that one file claims. */
export interface Claim {
  readonly name: string;
  /** The message when another file holds the claim. */
  readonly conflict: string;
  readonly location?: SourceLocation;
}

/** Returns all claims of a file. */
export function claimsOf(spec: DomainSpec, mergesDomains: boolean): readonly Claim[] {
  if (!mergesDomains) {
    return [{ name: spec.domain, conflict: `duplicate domain '${spec.domain}' in config file`, ...placeOf(spec) }];
  }
  return spec.descriptors.map((descriptor) => {
    const composite = descriptor.value === "" ? descriptor.key : `${descriptor.key}_${descriptor.value}`;
    const shown = shownComposite(descriptor.key, descriptor.value);
    const conflict = `duplicate descriptor composite key '${spec.domain}.${shown}'`;
    return { name: `${spec.domain}\n${composite}`, conflict, ...placeOf(descriptor) };
  });
}

/** Records which file holds each claim. */
export class ClaimRegistry {
  readonly #owners = new Map<string, string>();

  /** Records all claims of `key`; or records none, and returns a problem for each that another file holds. */
  claimAll(key: string, claims: readonly Claim[]): readonly ConfigProblem[] {
    const conflicts = claims.flatMap((claim) => {
      const owner = this.#owners.get(claim.name) ?? key;
      if (owner === key) return [];
      return [{ message: claim.conflict, resource: key, ...placeOf(claim), hint: `${owner} has it` }];
    });
    if (conflicts.length === 0) for (const { name } of claims) this.#owners.set(name, key);
    return conflicts;
  }
}

function placeOf({ location }: { readonly location?: SourceLocation }): { readonly location?: SourceLocation } {
  return location === undefined ? {} : { location };
}
