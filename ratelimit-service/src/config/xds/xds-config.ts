/** The resources of one response → a configuration, or everything that is wrong with them, in pieces. */
import type { ConfigProblem } from "../config-problem.ts";
import type { ConfigPart, XdsResources } from "../config-source.ts";
import { assembleDomains, buildDomainInPieces } from "../descriptor-tree.ts";
import { ClaimBook, claimsOf } from "../domain-claims.ts";
import type { DescriptorLevel, RateLimitConfig } from "../rule.ts";
import { DescriptorCount, readXdsResource } from "./xds-resource.ts";

export interface XdsConfig {
  /** Absent if there is any problem. */
  readonly config?: RateLimitConfig;
  readonly parts: readonly ConfigPart[];
  readonly problems: readonly ConfigProblem[];
}

/** With so many problems the other resources are not read. */
const enoughProblems = 100;

/** Reads and checks all resources. Never throws. */
export function* readXdsConfig(from: XdsResources): Generator<undefined, XdsConfig> {
  const problems: ConfigProblem[] = [];
  const parts: ConfigPart[] = [];
  const files = new Map<string, { readonly domain: string; readonly level: DescriptorLevel }>();
  const book = new ClaimBook();
  const count = new DescriptorCount(from.maxDescriptors);
  for (const [i, resource] of from.resources.entries()) {
    if (problems.length >= enoughProblems) break;
    try {
      const spec = yield* readXdsResource(resource, count);
      const built = yield* buildDomainInPieces(spec);
      // Names are the server's business, and two resources may have the same.
      const owner = `${spec.key}\n${i}`;
      const conflicts = book.take(owner, claimsOf(spec, from.mergesDomains));
      problems.push(...built.problems, ...conflicts.map((conflict) => ({ ...conflict, resource: spec.key })));
      if (built.level === undefined) continue;
      files.set(owner, { domain: spec.domain, level: built.level });
      parts.push({ key: spec.key, domain: spec.domain, state: "current" });
    } catch (error) {
      problems.push({
        message: `resource ${i} cannot be read: ${error instanceof Error ? error.message : String(error)}`,
      });
    }
  }
  return { ...(problems.length === 0 ? { config: assembleDomains(files) } : {}), parts, problems };
}
