/**
 * Environment variables of envoyproxy/ratelimit that this service does not implement. Most have no effect, which the
 * log reports at the start. A value that requests different behavior is an error.
 */

/** Variables without effect, with the reason. */
export const settingsWithoutEffect: Readonly<Record<string, string>> = {
  REDIS_POOL_SIZE: "one connection carries all commands",
  REDIS_POOL_ON_EMPTY_BEHAVIOR: "there is no pool of connections",
  REDIS_PIPELINE_WINDOW: "commands that come together are always written together",
  REDIS_PIPELINE_LIMIT: "envoyproxy/ratelimit does not use it either",
  REDIS_CLUSTER_PIPELINE_PARALLELISM: "all nodes of a cluster are called at the same time",
  REDIS_PERSECOND_POOL_SIZE: "one connection carries all commands",
  REDIS_PERSECOND_POOL_ON_EMPTY_BEHAVIOR: "there is no pool of connections",
  REDIS_PERSECOND_PIPELINE_WINDOW: "commands that come together are always written together",
  REDIS_PERSECOND_PIPELINE_LIMIT: "envoyproxy/ratelimit does not use it either",
  REDIS_PERSECOND_CLUSTER_PIPELINE_PARALLELISM: "all nodes of a cluster are called at the same time",
  MEMCACHE_MAX_IDLE_CONNS: "one connection to each memcached carries all commands",
};

/** Variables with values that are rejected. */
export const rejectedSettings: Readonly<Record<string, { readonly values: RegExp; readonly message: string }>> = {
  REDIS_POOL_ON_EMPTY_BEHAVIOR: {
    values: /^(?:create|error)$/i,
    message: "there is no pool of connections that could be empty; only WAIT is accepted, as in envoyproxy/ratelimit",
  },
  REDIS_PERSECOND_POOL_ON_EMPTY_BEHAVIOR: {
    values: /^(?:create|error)$/i,
    message: "there is no pool of connections that could be empty; only WAIT is accepted, as in envoyproxy/ratelimit",
  },
};

/** Returns one sentence for each variable of `env` that has no effect, in the order of the names. */
export function noticesOf(env: Readonly<Record<string, string | undefined>>): readonly string[] {
  return Object.keys(env)
    .sort()
    .flatMap((name) => {
      const reason = (env[name] ?? "") === "" ? undefined : settingsWithoutEffect[name];
      return reason === undefined ? [] : [`${name} has no effect: ${reason}`];
    });
}
