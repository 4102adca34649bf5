/** Logs the result of each load of the configuration. */
import type { Logger } from "@gatewayproxy/runtime/log";
import { renderConfigProblem } from "../config/config-problem.ts";
import type { ConfigUpdate } from "../config/config-source.ts";
import { rulesOf, shownComposite } from "../config/rule.ts";

/** Logs one line for the load, and one for each problem and warning. */
export function logConfigUpdate(log: Logger, { config, parts, problems, warnings }: ConfigUpdate): void {
  for (const warning of warnings) log.warn({ warning: renderConfigProblem(warning) }, "configuration warning");
  for (const problem of problems) log.error({ problem: renderConfigProblem(problem) }, "configuration problem");
  if (config === undefined) {
    log.error({ files: parts.length }, "no configuration could be loaded; every call fails until one can");
    return;
  }
  for (const rule of log.isLevelEnabled("debug") ? rulesOf(config) : []) {
    const { domain, levels, limit } = rule;
    const path = levels.map(({ key, value }) => shownComposite(key, value)).join(".");
    log.debug({ domain, path, limit: limit && `${limit.requestsPerUnit} per ${limit.unit}` }, "limit loaded");
  }
  const fields = { files: parts.length, domains: config.domains.size, limits: [...rulesOf(config)].length };
  if (problems.length === 0) log.info(fields, "configuration loaded");
  else log.warn(fields, "configuration loaded in part; what is invalid keeps its last valid version");
}
