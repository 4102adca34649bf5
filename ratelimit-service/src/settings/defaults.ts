/**
 * The two sets of defaults: ours, and envoyproxy/ratelimit's. The service uses envoyproxy/ratelimit's when it is
 * started as `/bin/ratelimit`, the command in manifests for envoyproxy/ratelimit's image. Only variables with different
 * defaults are listed; an explicit value means the same in both.
 */

export type DefaultSet = "ours" | "reference";

/** By environment variable. The text of `ours` also names the variables on which a default depends. */
export const differingDefaults: Readonly<
  Record<string, { readonly ours: string; readonly reference: string; readonly effect: string }>
> = {
  LIMIT_RESPONSE_HEADERS_ENABLED: {
    ours: "unset, which is RESPONSE_HEADERS=envoy",
    reference: "false",
    effect: "responses have headers only if they are enabled",
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
  LOG_LEVEL: { ours: "info", reference: "warn", effect: "the log has only warnings and errors" },
  LOG_FORMAT: { ours: "json", reference: "text", effect: "log lines are text" },
};

/** Exit status of the process when a setting, or the folder of limits, cannot be read. */
export const settingsExitCode: Readonly<Record<DefaultSet, number>> = { ours: 64, reference: 2 };

/** Returns an environment in which every variable that is unset or empty has the default of the set. */
export function withDefaults(
  env: Readonly<Record<string, string | undefined>>,
  defaults: DefaultSet,
): Readonly<Record<string, string | undefined>> {
  if (defaults === "ours") return env;
  const missing = Object.entries(differingDefaults).filter(([name]) => (env[name] ?? "") === "");
  return { ...env, ...Object.fromEntries(missing.map(([name, { reference }]) => [name, reference])) };
}
