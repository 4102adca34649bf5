/**
 * Each environment variable of the reference is a setting of this service with its default, or has no effect for a
 * reason.
 */
import { readFileSync } from "node:fs";
import { renderProblem } from "@gatewayproxy/runtime/problem";
import { renderLogFilter } from "@gatewayproxy/runtime/log-filter";
import { describe, expect, test } from "vitest";
import { readServiceSettings, serviceSettings } from "../settings.ts";
import { type ReferenceType, referenceVariables } from "../testing/reference-variables.ts";
import { settingsWithoutEffect } from "./other-settings.ts";

const keyOf = new Map(Object.entries(serviceSettings).map(([key, { env }]) => [env as string, key]));
const settings = referenceVariables.filter(([name]) => keyOf.has(name));
const others = referenceVariables.filter(([name]) => !keyOf.has(name));

/** Defaults that are written otherwise here. */
const elsewhere: Readonly<Record<string, string>> = {
  // A path is a socket, everything else an address.
  REDIS_SOCKET_TYPE: "",
  REDIS_PERSECOND_SOCKET_TYPE: "",
  // The reference leaves it to its gRPC client.
  XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES: "4194304",
};

async function valueOf(env: Readonly<Record<string, string>>, name: string): Promise<unknown> {
  const read = await readServiceSettings({ argv: [], env }, "reference");
  if (!read.ok) return read.problems.map(renderProblem);
  const values: Readonly<Record<string, unknown>> = read.value.values;
  return name === "LOG_LEVEL" ? renderLogFilter(read.value.values.logLevel) : values[keyOf.get(name) ?? ""];
}

test("the reference has 114 variables, and each is a setting or one without effect", () => {
  expect(new Set(referenceVariables.map(([name]) => name)).size).toBe(114);
  expect(others.map(([name]) => name).sort()).toEqual(Object.keys(settingsWithoutEffect).sort());
});

/** Of a setting whose default is filled in where it is used. */
function defaultText(name: string): string | undefined {
  const setting = Object.values(serviceSettings).find(({ env }) => env === name);
  return setting !== undefined && "defaultText" in setting ? setting.defaultText : undefined;
}

test.each(settings)("%s has the reference's default", async (name, _, byDefault) => {
  const written = elsewhere[name] ?? byDefault;
  const expected = await valueOf(written === "" ? {} : { [name]: written }, name);

  expect((await valueOf({}, name)) ?? (expected === undefined ? undefined : defaultText(name))).toEqual(expected);
});

describe("a value that the reference cannot read ends the start", () => {
  const unreadable: Readonly<Partial<Record<ReferenceType, string>>> = {
    integer: "many",
    flag: "maybe",
    duration: "soon",
    decimal: "half",
    pairs: "none",
  };

  test.each(settings.filter(([, type]) => unreadable[type] !== undefined))("%s", async (name, type) => {
    const found = await valueOf({ [name]: unreadable[type] ?? "" }, name);

    expect(found).toEqual([expect.stringContaining(`${name}: "${unreadable[type] ?? ""}" is not `)]);
  });
});

/** Where each variable's effect is asserted, by the file below the repository. */
const proofs: Readonly<Record<string, readonly string[]>> = {
  "ratelimit-service/src/settings.test.ts": ["MEMCACHE_SRV", "MEMCACHE_SRV_REFRESH"],
  "ratelimit-service/src/settings/read-telemetry-settings.test.ts": [
    ...["TRACING_ENABLED", "TRACING_SERVICE_NAME", "TRACING_SERVICE_NAMESPACE", "TRACING_SERVICE_INSTANCE_ID"],
    ...["TRACING_EXPORTER_PROTOCOL", "TRACING_SAMPLING_RATE"],
  ],
  "test/ratelimit-service/environment.test.ts": [
    ...["HOST", "PORT", "DEBUG_HOST", "DEBUG_PORT", "GRPC_HOST", "GRPC_PORT"],
    ...["GRPC_MAX_CONNECTION_AGE", "GRPC_MAX_CONNECTION_AGE_GRACE", "LOG_LEVEL", "LOG_FORMAT"],
    ...["CONFIG_GRPC_XDS_NODE_ID", "CONFIG_GRPC_XDS_NODE_METADATA", "CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL"],
    ...["CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", "CONFIG_GRPC_XDS_SERVER_USE_TLS"],
    ...["CONFIG_GRPC_XDS_CLIENT_TLS_CERT", "CONFIG_GRPC_XDS_CLIENT_TLS_KEY", "CONFIG_GRPC_XDS_SERVER_TLS_CACERT"],
    ...["CONFIG_GRPC_XDS_SERVER_TLS_SAN", "XDS_CLIENT_BACKOFF_INITIAL_INTERVAL", "XDS_CLIENT_BACKOFF_MAX_INTERVAL"],
    ...["XDS_CLIENT_BACKOFF_RANDOM_FACTOR", "XDS_CLIENT_BACKOFF_JITTER", "XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES"],
    ...["USE_STATSD", "STATSD_HOST", "STATSD_PORT", "STATS_FLUSH_INTERVAL"],
    ...["RUNTIME_ROOT", "RUNTIME_SUBDIRECTORY", "RUNTIME_APPDIRECTORY", "RUNTIME_IGNOREDOTFILES", "RUNTIME_WATCH_ROOT"],
    ...["EXPIRATION_JITTER_MAX_SECONDS", "NEAR_LIMIT_RATIO", "LIMIT_RESPONSE_HEADERS_ENABLED", "LIMIT_LIMIT_HEADER"],
    ...["LIMIT_REMAINING_HEADER", "LIMIT_RESET_HEADER", "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED"],
    ...["REDIS_SOCKET_TYPE", "REDIS_PERSECOND_SOCKET_TYPE", "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION", "REDIS_TIMEOUT"],
    ...["REDIS_PERSECOND_TIMEOUT", "REDIS_SENTINEL_AUTH", "REDIS_PERSECOND_SENTINEL_AUTH"],
    ...["SHADOW_MODE", "QUOTA_MODE", "RESPONSE_DYNAMIC_METADATA", "MERGE_DOMAIN_CONFIG"],
  ],
  "test/ratelimit-service/reference-integration.test.ts": [
    ...["GRPC_SERVER_USE_TLS", "GRPC_SERVER_TLS_CERT", "GRPC_SERVER_TLS_KEY", "GRPC_CLIENT_TLS_CACERT"],
    ...["GRPC_CLIENT_TLS_SAN", "CONFIG_TYPE", "CONFIG_GRPC_XDS_SERVER_URL", "EXTRA_TAGS", "BACKEND_TYPE"],
    ...["LOCAL_CACHE_SIZE_IN_BYTES", "CACHE_KEY_PREFIX", "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT"],
    ...["REDIS_TYPE", "REDIS_URL", "REDIS_AUTH", "REDIS_TLS", "REDIS_TLS_CACERT", "REDIS_TLS_CLIENT_CERT"],
    ...["REDIS_TLS_CLIENT_KEY", "REDIS_PERSECOND", "REDIS_PERSECOND_TYPE", "REDIS_PERSECOND_URL"],
    ...["REDIS_PERSECOND_AUTH", "REDIS_PERSECOND_TLS", "MEMCACHE_HOST_PORT"],
  ],
  "test/ratelimit-service/reference-newest.test.ts": [
    ...["PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS", "REDIS_STARTUP_INITIAL_INTERVAL", "REDIS_STARTUP_MAX_INTERVAL"],
    ...["REDIS_STARTUP_MAX_ELAPSED_TIME", "REDIS_HEALTH_CHECK_ACTIVE_CONNECTION"],
  ],
  "test/ratelimit-service/process.test.ts": ["GRPC_UDS", "FORCE_START_WITHOUT_INITIAL_CONFIG", "DISABLE_STATS"],
  "test/ratelimit-service/metric-sinks.test.ts": [
    ...["USE_DOG_STATSD", "USE_DOG_STATSD_MOGRIFIERS", "USE_PROMETHEUS", "PROMETHEUS_ADDR", "PROMETHEUS_PATH"],
    "PROMETHEUS_MAPPER_YAML",
  ],
  "test/ratelimit-service/memcached.test.ts": [
    ...["MEMCACHE_TLS", "MEMCACHE_TLS_CLIENT_CERT", "MEMCACHE_TLS_CLIENT_KEY", "MEMCACHE_TLS_CACERT"],
    "MEMCACHE_TLS_SKIP_HOSTNAME_VERIFICATION",
  ],
};

describe("the effect of each variable is asserted", () => {
  test("in one file each", () => {
    expect(Object.values(proofs).flat().sort()).toEqual(settings.map(([name]) => name).sort());
  });

  test.each(Object.entries(proofs))("%s names those that it asserts", (file, names) => {
    const text = readFileSync(new URL(`../../../${file}`, import.meta.url), "utf8");

    expect(names.filter((name) => !new RegExp(`\\b${name}\\b`).test(text))).toEqual([]);
  });

  test.each(others)("%s changes nothing, and the log says so", async (name, _, byDefault) => {
    const read = async (env: Readonly<Record<string, string>>) => {
      const found = await readServiceSettings({ argv: [], env }, "reference");
      return found.ok ? found.value : undefined;
    };
    const [without, withIt] = [await read({}), await read({ [name]: byDefault === "" ? "text" : byDefault })];

    expect({ ...withIt, notices: [] }).toEqual({ ...without, notices: [] });
    expect(withIt?.notices).toEqual([`${name} has no effect: ${settingsWithoutEffect[name] ?? ""}`]);
  });
});

test("docs/ratelimit-service.md names every one of them", () => {
  const page = readFileSync(new URL("../../../docs/ratelimit-service.md", import.meta.url), "utf8");

  expect(referenceVariables.filter(([name]) => !page.includes(`\`${name}\` `))).toEqual([]);
});
