/**
 * Environment variables of the reference that mean something else here: nothing, which the log tells at the start, or
 * something that this service cannot do, which ends it. Neither is passed over in silence.
 */

/** Accepted and without effect, with the reason. A name that ends in `*` stands for all that begin like it. */
export const settingsWithoutEffect: Readonly<Record<string, string>> = {
  REDIS_POOL_SIZE: "one connection carries all commands",
  REDIS_POOL_ON_EMPTY_BEHAVIOR: "there is no pool of connections",
  REDIS_PIPELINE_WINDOW: "commands that come together are always written together",
  REDIS_PIPELINE_LIMIT: "the reference does not use it either",
  REDIS_CLUSTER_PIPELINE_PARALLELISM: "all nodes of a cluster are asked at once",
  REDIS_PERSECOND_POOL_SIZE: "one connection carries all commands",
  REDIS_PERSECOND_POOL_ON_EMPTY_BEHAVIOR: "there is no pool of connections",
  REDIS_PERSECOND_PIPELINE_WINDOW: "commands that come together are always written together",
  REDIS_PERSECOND_PIPELINE_LIMIT: "the reference does not use it either",
  REDIS_PERSECOND_CLUSTER_PIPELINE_PARALLELISM: "all nodes of a cluster are asked at once",
  PROMETHEUS_MAPPER_YAML: "every level of a rule is a label without a mapping",
  USE_DOG_STATSD_MOGRIFIERS: "there is no DogStatsD sink",
  "DOG_STATSD_MOGRIFIER_*": "there is no DogStatsD sink",
  "MEMCACHE_*": "counters are in memory or in Redis",
  "TRACING_*": "no spans are sent",
};

/** Refused with certain values. */
export const refusedSettings: Readonly<Record<string, { readonly values: RegExp; readonly instead: string }>> = {
  BACKEND_TYPE: {
    values: /^memcached?$/i,
    instead: "memcached is not supported; set BACKEND_TYPE=redis with REDIS_URL, or BACKEND_TYPE=memory",
  },
  USE_DOG_STATSD: {
    values: /^(?:1|t|true)$/i,
    instead: "DogStatsD is not supported; set USE_STATSD=true, or scrape /metrics",
  },
};

/** One sentence for each variable of `env` that has no effect, in the order of the names. */
export function noticesOf(env: Readonly<Record<string, string | undefined>>): readonly string[] {
  return Object.keys(env)
    .sort()
    .flatMap((name) => {
      const reason = env[name] === "" || env[name] === undefined ? undefined : reasonOf(name);
      return reason === undefined ? [] : [`${name} has no effect: ${reason}`];
    });
}

function reasonOf(name: string): string | undefined {
  const exact = settingsWithoutEffect[name];
  if (exact !== undefined) return exact;
  const family = Object.entries(settingsWithoutEffect).find(
    ([pattern]) => pattern.endsWith("*") && name.startsWith(pattern.slice(0, -1)),
  );
  return family?.[1];
}
