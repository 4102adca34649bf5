/** Names and destinations of metrics, from the settings of statistics and the files and variables that they name. */
import { readFileSync } from "node:fs";
import type { Problem, Result } from "@gatewayproxy/runtime/problem";
import type { SettingValues } from "@gatewayproxy/runtime/settings";
import { errorMessage } from "@gatewayproxy/runtime/thrown-value";
import { callTimeBounds } from "../metrics/call-times.ts";
import type { Mogrifier } from "../metrics/mogrifiers.ts";
import type { PrometheusMapping } from "../metrics/prometheus-mapping.ts";
import { responseTimeName } from "../metrics/metric-names.ts";
import { pairs } from "./kinds.ts";
import type { statsSettings } from "./stats-settings.ts";

/** The settings of metrics. */
export interface StatsSettings {
  /** Destination of the metrics, if there is one. */
  readonly sink?: "statsd" | "dogstatsd";
  /** Rules for DogStatsD. */
  readonly mogrifiers: readonly Mogrifier[];
  /** Replaces the built-in names. */
  readonly prometheusMapping?: PrometheusMapping;
  /** Upper bounds of the histogram of response times, in seconds. */
  readonly callTimeBounds: readonly number[];
}

type Env = Readonly<Record<string, string | undefined>>;
type Values = SettingValues<typeof statsSettings>;

/**
 * Reads the file of PROMETHEUS_MAPPER_YAML. Modules with regular expressions are loaded by the settings that have some:
 * re2js takes 0.8 MiB.
 */
export async function readStatsSettings(values: Values, env: Env): Promise<Result<StatsSettings>> {
  const problems: Problem[] = [];
  const names = values.useDogStatsd
    ? (values.useDogStatsdMogrifiers ?? "").split(",").filter((name) => name !== "")
    : [];
  const read = await Promise.all(names.map((name) => readMogrifier(name.trim(), env, problems)));
  if (values.useDogStatsd && !values.disableStats) {
    for (const [otherSetting, isUsed] of [
      ["USE_STATSD", values.useStatsd] as const,
      ["USE_PROMETHEUS", values.usePrometheus] as const,
    ]) {
      const message = `cannot be used together with ${otherSetting}=true; set one of them to false`;
      if (isUsed === true) problems.push({ path: "USE_DOG_STATSD", message });
    }
  }
  const mapping =
    values.prometheusMapperYaml === undefined ? undefined : await readMapping(values.prometheusMapperYaml, problems);
  if (problems.length > 0) return { ok: false, problems };
  const sink = sinkOf(values);
  const settings = {
    ...(sink === undefined ? {} : { sink }),
    mogrifiers: read.flat(),
    ...(mapping === undefined ? {} : { prometheusMapping: mapping }),
    callTimeBounds: mapping === undefined ? callTimeBounds : await boundsOf(mapping),
  };
  return { ok: true, value: settings };
}

function sinkOf({ disableStats, useDogStatsd, useStatsd, statsdHost }: Values): StatsSettings["sink"] {
  if (disableStats) return undefined;
  if (useDogStatsd) return "dogstatsd";
  return (useStatsd ?? statsdHost !== undefined) ? "statsd" : undefined;
}

async function readMogrifier(key: string, env: Env, problems: Problem[]): Promise<Mogrifier[]> {
  const { patternProblem } = await import("../metrics/mogrifiers.ts");
  const prefix = `DOG_STATSD_MOGRIFIER_${key.toUpperCase()}`;
  const problemsBefore = problems.length;
  const read = (part: string): string => {
    const value = env[`${prefix}_${part}`] ?? "";
    const message = `missing; USE_DOG_STATSD_MOGRIFIERS names ${key}`;
    if (value === "") problems.push({ path: `${prefix}_${part}`, message });
    return value;
  };
  const [pattern, name] = [read("PATTERN"), read("NAME")];
  const problem = pattern === "" ? undefined : patternProblem(pattern);
  if (problem !== undefined) problems.push({ path: `${prefix}_PATTERN`, message: problem });
  const text = env[`${prefix}_TAGS`] ?? "";
  const tags = text === "" ? new Map<string, string>() : pairs(":").parse(text);
  if (tags === undefined || tags.values().some((value) => value === "")) {
    problems.push({ path: `${prefix}_TAGS`, message: `${JSON.stringify(text)} is not NAME:VALUE,…` });
  }
  return problems.length === problemsBefore && tags !== undefined ? [{ pattern, name, tags: [...tags] }] : [];
}

async function readMapping(file: string, problems: Problem[]): Promise<PrometheusMapping | undefined> {
  const { parsePrometheusMapping } = await import("../metrics/prometheus-mapping.ts");
  try {
    return parsePrometheusMapping(readFileSync(file, "utf8"));
  } catch (error) {
    const text = errorMessage(error);
    // The parser's message shows a syntax error over several lines.
    const [problem = ""] = text.split("\n");
    problems.push({ path: "PROMETHEUS_MAPPER_YAML", message: `${file} cannot be used: ${problem.replace(/:$/, "")}` });
    return undefined;
  }
}

/** Returns the bounds that the mapping gives to the response times, in seconds. */
async function boundsOf(mapping: PrometheusMapping): Promise<readonly number[]> {
  const { metricMapper } = await import("../metrics/prometheus-mapping.ts");
  const metric = metricMapper(mapping)(responseTimeName, "observer");
  if (metric?.buckets === undefined || metric.scale === 0) return callTimeBounds;
  return metric.buckets.map((bound) => bound / (1_000 * metric.scale));
}
