/**
 * Dumps the limits in use, for `/rlconfig`: as text exactly as envoyproxy/ratelimit writes them, or as JSON with all
 * details.
 */
import { type RateLimitConfig, type Rule, rulesOf } from "../../config/rule.ts";
import type { LimitWindow } from "../../model/limit-window.ts";
import type { CurrentLimit } from "../../model/rate-limit.ts";

/** Renders one line per limit, in the order of the configuration; empty without a configuration. */
export function renderConfigText(config: RateLimitConfig | undefined): string {
  return rules(config)
    .flatMap((rule) => {
      const modes = `shadow_mode: ${rule.shadowMode}, quota_mode: ${rule.quotaMode}`;
      return limitTexts(rule).map((limit) => `${rule.path}: ${limit}, ${modes}\n`);
    })
    .join("");
}

/** Renders the limits of a rule; the parts that envoyproxy/ratelimit does not have are at the end of the text. */
function limitTexts(rule: Rule): readonly string[] {
  const { limit, group, calendar } = rule;
  if (group !== undefined) return group.limits.map(({ limit: each, window }) => limitText(each, window));
  return [limitText(limit, calendar)];
}

function limitText(limit: CurrentLimit | undefined, window: LimitWindow | undefined): string {
  const text = `unit=${limit?.unit ?? "UNKNOWN"} requests_per_unit=${limit?.requestsPerUnit ?? 0}`;
  if (window?.kind === "calendar") return `${text} calendar=true timezone=${window.timeZone}`;
  return window?.kind === "sliding" ? `${text} window=sliding` : text;
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
    ...limitsDump(rule),
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

function limitsDump({ limit, group, calendar }: Rule): object {
  if (limit === undefined) return { unlimited: true };
  if (group === undefined) return { ...limit, ...windowDump(calendar) };
  const limits = group.limits.map(({ limit: each, window }) => ({ ...each, ...windowDump(window) }));
  return { limits, ...(group.countsDenied ? { countDenied: true } : {}) };
}

function windowDump(window: LimitWindow | undefined): object {
  if (window?.kind === "calendar") return { calendar: true, timezone: window.timeZone };
  return window?.kind === "sliding" ? { window: "sliding" } : {};
}

function rules(config: RateLimitConfig | undefined): Rule[] {
  return config === undefined ? [] : [...rulesOf(config)];
}
