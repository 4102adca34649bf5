/** Parses the resources of one response into a configuration, or into the list of all its problems, in pieces. */
import { errorMessage } from "@gatewayproxy/runtime/thrown-value";
import type { ConfigProblem } from "../config-problem.ts";
import type { ConfigPart, XdsResources } from "../config-source.ts";
import { assembleDomains, buildDomainInPieces } from "../descriptor-tree.ts";
import { ClaimRegistry, claimsOf } from "../domain-claims.ts";
import type { DescriptorLevel, RateLimitConfig } from "../rule.ts";
import { DescriptorCount, readXdsResource } from "./xds-resource.ts";

/** The content of one response. */
export interface XdsConfig {
  /** Absent if there is any problem. */
  readonly config?: RateLimitConfig;
  readonly parts: readonly ConfigPart[];
  readonly problems: readonly ConfigProblem[];
}

/** Maximum number of problems. After it, the other resources are not read. */
const maxProblems = 100;

/** Reads and validates all resources. Never throws. */
export function* readXdsConfig(received: XdsResources): Generator<undefined, XdsConfig> {
  const problems: ConfigProblem[] = [];
  const parts: ConfigPart[] = [];
  const files = new Map<string, { readonly domain: string; readonly level: DescriptorLevel }>();
  const registry = new ClaimRegistry();
  const count = new DescriptorCount(received.maxDescriptors);
  for (const [i, resource] of received.resources.entries()) {
    if (problems.length >= maxProblems) break;
    try {
      const spec = yield* readXdsResource(resource, count);
      const built = yield* buildDomainInPieces(spec);
      // The server chooses the names, and two resources may have the same.
      const owner = `${spec.key}\n${i}`;
      const conflicts = registry.claimAll(owner, claimsOf(spec, received.mergesDomains));
      problems.push(...built.problems, ...conflicts.map((conflict) => ({ ...conflict, resource: spec.key })));
      if (built.level === undefined) continue;
      files.set(owner, { domain: spec.domain, level: built.level });
      parts.push({ key: spec.key, domain: spec.domain, state: "current" });
    } catch (error) {
      problems.push({
        message: `resource ${i} cannot be read: ${errorMessage(error)}`,
      });
    }
  }
  return { ...(problems.length === 0 ? { config: assembleDomains(files) } : {}), parts, problems };
}
