/**
 * Reads the settings of the service: every environment variable of envoyproxy/ratelimit with its default, and further
 * ones. They are read once, at the start. All problems are reported together; so are variables that have no effect.
 */
import { join } from "node:path";
import type { Problem, Result } from "@gatewayproxy/runtime/problem";
import { readSettings, type SettingSources, type SettingValues } from "@gatewayproxy/runtime/settings";
import type { RuntimeDirectory } from "./config/runtime-directory.ts";
import type { CallBounds } from "./limiter/call-bounds.ts";
import type { HeaderStyle } from "./limiter/headers.ts";
import { configSettings } from "./settings/config-settings.ts";
import { type DefaultSet, withDefaults } from "./settings/defaults.ts";
import { knownArguments } from "./settings/known-arguments.ts";
import { limitSettings } from "./settings/limit-settings.ts";
import { memcacheSettings } from "./settings/memcache-settings.ts";
import { noticesOf, rejectedSettings } from "./settings/other-settings.ts";
import { readStatsSettings, type StatsSettings } from "./settings/read-stats-settings.ts";
import { readStoreSettings, type StoreSettings } from "./settings/read-store-settings.ts";
import { redisSettings } from "./settings/redis-settings.ts";
import { serverSettings } from "./settings/server-settings.ts";
import { statsSettings } from "./settings/stats-settings.ts";
import { readServiceTelemetry, type ServiceTelemetry } from "./settings/read-telemetry-settings.ts";
import { tracingSettings } from "./settings/tracing-settings.ts";

/** All settings, by the name that the code uses. */
export const serviceSettings = {
  ...serverSettings,
  ...configSettings,
  ...limitSettings,
  ...redisSettings,
  ...memcacheSettings,
  ...statsSettings,
  ...tracingSettings,
} as const;

/** The valid settings of a process. Plain data, which can be sent to threads. */
export interface ServiceSettings {
  /** The value of each setting; durations are in milliseconds. */
  readonly values: SettingValues<typeof serviceSettings>;
  /** Derived from several settings together. */
  readonly store: StoreSettings;
  /** The names and destinations of metrics. */
  readonly stats: StatsSettings;
  /** The export of spans and of metrics. */
  readonly telemetry: ServiceTelemetry;
  /** The headers of responses. */
  readonly headers: HeaderStyle;
  /** The bounds of one call. */
  readonly bounds: CallBounds;
  /** The folder of configuration files. */
  readonly runtime: RuntimeDirectory;
  /** The set of defaults in use. */
  readonly defaults: DefaultSet;
  /** Sentences on variables without effect, for the log. */
  readonly notices: readonly string[];
}

/**
 * Reads the command line and the environment. A setting that is absent from both gets its default from `defaults`.
 * Never rejects.
 */
export async function readServiceSettings(
  rawSources: SettingSources,
  defaults: DefaultSet = "ours",
): Promise<Result<ServiceSettings>> {
  const all = { known: rawSources.argv, ignored: [] };
  const { known: argv, ignored } = defaults === "reference" ? knownArguments(rawSources.argv, serviceSettings) : all;
  const sources = { ...rawSources, argv, env: withDefaults(rawSources.env, defaults) };
  const rejected = rejectionsOf(sources.env);
  if (rejected.length > 0) return { ok: false, problems: rejected };
  const read = readSettings(serviceSettings, sources);
  if (!read.ok) return read;
  const { value: values } = read;
  const store = readStoreSettings(values);
  const stats = await readStatsSettings(values, sources.env);
  const telemetry = readServiceTelemetry(values, rawSources.env);
  const problems = [store, stats, telemetry].flatMap((result) => (result.ok ? [] : result.problems));
  if (!store.ok || !stats.ok || !telemetry.ok) return { ok: false, problems };
  const settings = {
    values,
    store: store.value,
    stats: stats.value,
    telemetry: telemetry.value,
    headers: headerStyleOf(values),
    bounds: {
      maxDescriptors: values.maxCallDescriptors,
      maxEntries: values.maxDescriptorEntries,
      maxTextLength: values.maxTextLength,
    },
    runtime: runtimeDirectoryOf(values),
    notices: [...ignored.map((name) => `${name} has no effect: no such argument`), ...noticesOf(rawSources.env)],
    defaults: defaults,
  };
  return { ok: true, value: settings };
}

function rejectionsOf(env: SettingSources["env"]): readonly Problem[] {
  return Object.entries(rejectedSettings).flatMap(([name, { values, message }]) =>
    values.test(env[name] ?? "") ? [{ path: name, message: message }] : [],
  );
}

function headerStyleOf(values: ServiceSettings["values"]): HeaderStyle {
  const referenceStyles = { true: "ratelimit", false: "off", undefined: "envoy" } as const;
  const kind = values.responseHeaders ?? referenceStyles[`${values.limitResponseHeadersEnabled}`];
  if (kind !== "ratelimit") return { kind };
  return {
    kind,
    limit: values.limitLimitHeader,
    remaining: values.limitRemainingHeader,
    reset: values.limitResetHeader,
  };
}

const defaultRuntimeRoot = "/srv/runtime_data/current";

/**
 * Returns the folder of RUNTIME_ROOT, RUNTIME_SUBDIRECTORY and RUNTIME_APPDIRECTORY. `--config-dir` replaces it without
 * RUNTIME_ROOT and beside an xDS server.
 */
function runtimeDirectoryOf(values: ServiceSettings["values"]): RuntimeDirectory {
  const ignoresDotFiles = values.runtimeIgnoreDotFiles;
  const hasPrecedence = values.runtimeRoot === undefined || values.configType === "GRPC_XDS_SOTW";
  if (hasPrecedence && values.configDir !== undefined) {
    return { directory: values.configDir, keyRoot: values.configDir, ignoresDotFiles };
  }
  const keyRoot = join(values.runtimeRoot ?? defaultRuntimeRoot, values.runtimeSubdirectory ?? "");
  const directory = join(keyRoot, values.runtimeAppDirectory);
  return { directory, keyRoot: values.runtimeWatchRoot ? keyRoot : directory, ignoresDotFiles };
}
