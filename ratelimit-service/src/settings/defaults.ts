/**
 * The two sets of defaults: ours, and the reference's, which the service has when it is started as `/bin/ratelimit`, by the
 * name that manifests for the reference's image give. Only variables whose defaults differ are here; an explicit value
 * means the same in both.
 */

export type DefaultSet = "ours" | "reference";

/** By environment variable. `ours` is for people: where a default depends on other variables it says on which. */
export const differingDefaults: Readonly<
  Record<string, { readonly ours: string; readonly reference: string; readonly effect: string }>
> = {
  LIMIT_RESPONSE_HEADERS_ENABLED: {
    ours: "unset, which is RESPONSE_HEADERS=envoy",
    reference: "false",
    effect: "answers add headers only where they are asked for",
  },
  REDIS_HEALTH_CHECK_ACTIVE_CONNECTION: {
    ours: "true",
    reference: "false",
    effect: "an outage of Redis leaves the service healthy, so that a liveness probe does not restart it",
  },
  BACKEND_TYPE: {
    ours: "redis where REDIS_URL is set, else memory",
    reference: "redis",
    effect: "counters are never in memory unless BACKEND_TYPE says so",
  },
  REDIS_URL: {
    ours: "unset",
    reference: "/var/run/nutcracker/ratelimit.sock",
    effect: "a service without it waits for a Redis at that socket",
  },
  REDIS_PERSECOND_URL: {
    ours: "unset",
    reference: "/var/run/nutcracker/ratelimitpersecond.sock",
    effect: "the same with REDIS_PERSECOND=true",
  },
  USE_STATSD: {
    ours: "true where STATSD_HOST is set",
    reference: "true",
    effect: "metrics go to a statsd server at localhost:8125",
  },
  DEBUG_HOST: { ours: "127.0.0.1", reference: "0.0.0.0", effect: "the debug port is open to other machines" },
  LOG_LEVEL: { ours: "info", reference: "warn", effect: "the log has faults only" },
  LOG_FORMAT: { ours: "json", reference: "text", effect: "lines are for people" },
};

/** Status with which the process ends when a setting, or the folder of limits, cannot be read. */
export const settingsExitCode: Readonly<Record<DefaultSet, number>> = { ours: 64, reference: 2 };

/** An environment in which every variable that is not set, or is empty, has the default of the set. */
export function withDefaults(
  env: Readonly<Record<string, string | undefined>>,
  set: DefaultSet,
): Readonly<Record<string, string | undefined>> {
  if (set === "ours") return env;
  const missing = Object.entries(differingDefaults).filter(([name]) => (env[name] ?? "") === "");
  return { ...env, ...Object.fromEntries(missing.map(([name, { reference }]) => [name, reference])) };
}
