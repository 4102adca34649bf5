/**
 * Dumps the limits in use, for `/rlconfig`: as text exactly as envoyproxy/ratelimit writes them, or as JSON with all
 * details.
 */
import { type RateLimitConfig, type Rule, rulesOf } from "../../config/rule.ts";

/** Renders one line per limit, in the order of the configuration; empty without a configuration. */
export function renderConfigText(config: RateLimitConfig | undefined): string {
  return rules(config)
    .map((rule) => {
      const limit = `unit=${rule.limit?.unit ?? "UNKNOWN"} requests_per_unit=${rule.limit?.requestsPerUnit ?? 0}`;
      return `${rule.path}: ${limit}, shadow_mode: ${rule.shadowMode}, quota_mode: ${rule.quotaMode}\n`;
    })
    .join("");
}

/** Returns plain data for JSON, one element per limit. */
export function configDump(config: RateLimitConfig | undefined): readonly object[] {
  return rules(config).map(ruleDump);
}

/** Returns the properties of a rule; flags only if they are set. */
export function ruleDump(rule: Rule): object {
  return {
    path: rule.path,
    domain: rule.domain,
    ...(rule.limit === undefined ? { unlimited: true } : rule.limit),
    ...(rule.name === "" ? {} : { name: rule.name }),
    ...(rule.replaces.length === 0 ? {} : { replaces: rule.replaces }),
    ...(rule.shadowMode ? { shadowMode: true } : {}),
    ...(rule.quotaMode ? { quotaMode: true } : {}),
    ...(rule.detailedMetric ? { detailedMetric: true } : {}),
    ...(rule.sharesThreshold ? { shareThreshold: true } : {}),
    ...(rule.metadata === undefined ? {} : { metadata: rule.metadata }),
    ...(rule.location === undefined ? {} : { location: `${rule.location.file}:${rule.location.line}` }),
  };
}

function rules(config: RateLimitConfig | undefined): Rule[] {
  return config === undefined ? [] : [...rulesOf(config)];
}
