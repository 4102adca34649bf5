/**
 * Names and labels of Prometheus metrics by the rules of statsd_exporter (PROMETHEUS_MAPPER_YAML). A rule matches
 * metrics by their statsd name. Rules with globs are tried first, in the order of the file, then those with regular
 * expressions (RE2). A metric without a match keeps its statsd name, with `_` for characters that Prometheus does not
 * allow.
 */
import { errorMessage } from "@gatewayproxy/runtime/thrown-value";
import { RE2JS } from "re2js";
import { parse } from "yaml";

/** The type of a statsd metric; `observer` is a time. */
export type StatsdType = "counter" | "gauge" | "observer";

/** Plain data that can be posted to threads. */
export interface MappingRule {
  readonly matchType: "glob" | "regex";
  readonly match: string;
  /** Without it, metrics of every type match. */
  readonly metricType?: StatsdType;
  readonly drops: boolean;
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly help?: string;
  /** Factor for times in milliseconds; the default is 1. */
  readonly scale: number;
  /** Type of times. */
  readonly observer: "histogram" | "summary";
  /** Upper bounds of a histogram, in the unit after scaling; the default is the service's own. */
  readonly buckets?: readonly number[];
}

/** The content of a mapping file. */
export interface PrometheusMapping {
  readonly rules: readonly MappingRule[];
  /** Type of times that no rule matches. */
  readonly observer: "histogram" | "summary";
  readonly buckets?: readonly number[];
}

/** A metric with its Prometheus name. */
export interface MappedMetric {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly help: string;
  readonly scale: number;
  readonly observer: "histogram" | "summary";
  readonly buckets?: readonly number[];
}

const keysOfFile = ["defaults", "mappings"];
const keysOfDefaults = ["observer_type", "timer_type", "match_type", "histogram_options", "glob_disable_ordering"];
const keysOfRule = ["match", "match_type", "match_metric_type", "action", "name", "labels", "help", "scale"];
const keysOfObserver = ["observer_type", "timer_type", "histogram_options", "honor_labels"];

/** Parses a file. Throws an error with the location, the problem and the accepted values. */
export function parsePrometheusMapping(text: string): PrometheusMapping {
  const file = record(parse(text) ?? {}, "the file", keysOfFile);
  const defaults = record(file["defaults"] ?? {}, "defaults", keysOfDefaults);
  const matchType = oneOf(defaults["match_type"] ?? "glob", ["glob", "regex"], "defaults.match_type");
  const observer = observerOf(defaults, "defaults", "summary");
  const buckets = bucketsOf(defaults, "defaults");
  const mappings = file["mappings"] ?? [];
  if (!Array.isArray(mappings)) throw new Error("mappings is not a list");
  const rules = mappings.map((rule: unknown, i) => readRule(rule, `mappings[${i}]`, { matchType, observer, buckets }));
  return { rules, observer, ...(buckets === undefined ? {} : { buckets }) };
}

interface RuleDefaults {
  readonly matchType: "glob" | "regex";
  readonly observer: "histogram" | "summary";
  readonly buckets: readonly number[] | undefined;
}

function readRule(value: unknown, path: string, defaults: RuleDefaults): MappingRule {
  const rule = record(value, path, [...keysOfRule, ...keysOfObserver]);
  const match = textOf(rule["match"], `${path}.match`);
  const matchType = oneOf(rule["match_type"] ?? defaults.matchType, ["glob", "regex"], `${path}.match_type`);
  if (matchType === "glob" && !match.split(".").every((part) => part === "*" || /^[^*\s]+$/.test(part))) {
    throw new Error(
      `${path}.match: ${JSON.stringify(match)} is not a glob: each part between dots is * or contains none`,
    );
  }
  if (matchType === "regex") {
    try {
      RE2JS.compile(match);
    } catch (error) {
      throw new Error(`${path}.match: ${errorMessage(error)}`, { cause: error });
    }
  }
  const drops = oneOf(rule["action"] ?? "map", ["map", "drop"], `${path}.action`) === "drop";
  const name = rule["name"] === undefined && drops ? "" : textOf(rule["name"], `${path}.name`);
  if (!drops && !/^[a-zA-Z_:$][\w:${}]*$/.test(name)) {
    throw new Error(`${path}.name: ${JSON.stringify(name)} is not the name of a metric`);
  }
  const labels = Object.entries(record(rule["labels"] ?? {}, `${path}.labels`));
  for (const [label] of labels) {
    if (!/^[a-zA-Z_]\w*$/.test(label)) {
      throw new Error(`${path}.labels: ${JSON.stringify(label)} is not the name of a label`);
    }
  }
  const type = rule["match_metric_type"];
  const types = ["counter", "gauge", "observer", "timer"] as const;
  const metricType = type === undefined ? undefined : oneOf(type, types, `${path}.match_metric_type`);
  const scale = rule["scale"] ?? 1;
  if (typeof scale !== "number" || !Number.isFinite(scale)) throw new Error(`${path}.scale is not a number`);
  const buckets = bucketsOf(rule, path) ?? defaults.buckets;
  return {
    ...{ matchType, match, drops, name, scale },
    labels: Object.fromEntries(labels.map(([label, template]) => [label, textOf(template, `${path}.labels.${label}`)])),
    ...(metricType === undefined ? {} : { metricType: metricType === "timer" ? "observer" : metricType }),
    ...(rule["help"] === undefined ? {} : { help: textOf(rule["help"], `${path}.help`) }),
    observer: observerOf(rule, path, defaults.observer),
    ...(buckets === undefined ? {} : { buckets }),
  };
}

function observerOf(
  value: Readonly<Record<string, unknown>>,
  path: string,
  fallback: "histogram" | "summary",
): "histogram" | "summary" {
  const observerType = value["observer_type"] ?? value["timer_type"];
  return observerType === undefined ? fallback : oneOf(observerType, ["histogram", "summary"], `${path}.observer_type`);
}

function bucketsOf(value: Readonly<Record<string, unknown>>, path: string): readonly number[] | undefined {
  const options = record(value["histogram_options"] ?? {}, `${path}.histogram_options`, ["buckets"]);
  const buckets = options["buckets"];
  if (buckets === undefined) return undefined;
  const isList =
    Array.isArray(buckets) && buckets.every((bound) => typeof bound === "number" && Number.isFinite(bound));
  if (!isList) throw new Error(`${path}.histogram_options.buckets is not a list of numbers`);
  return [...new Set(buckets as readonly number[])].sort((a, b) => a - b);
}

/** @param accepted the accepted keys; without it, any */
function record(value: unknown, path: string, accepted?: readonly string[]): Readonly<Record<string, unknown>> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new Error(`${path} is not a mapping`);
  const entries = Object.entries(value);
  for (const [key] of accepted === undefined ? [] : entries) {
    if (accepted?.includes(key) === false) {
      throw new Error(`${path}.${key} is not supported; accepted are ${accepted.join(", ")}`);
    }
  }
  return Object.fromEntries(entries);
}

function textOf(value: unknown, path: string): string {
  if (typeof value === "string" && value !== "") return value;
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  throw new Error(`${path} is not a text`);
}

function oneOf<const T extends string>(value: unknown, accepted: readonly T[], path: string): T {
  const found = accepted.find((candidate) => candidate === value);
  if (found === undefined) throw new Error(`${path}: ${JSON.stringify(value)} is none of ${accepted.join(", ")}`);
  return found;
}

/** Returns the Prometheus metric for a statsd name; `undefined` when a rule drops it. */
export type MetricMapper = (name: string, type: StatsdType) => MappedMetric | undefined;

/** Maximum number of cached results: series are the same from one scrape to the next. */
const maxCached = 50_000;

/** Returns a function that applies the mapping. It caches up to 50,000 results. */
export function metricMapper({ rules, observer, buckets }: PrometheusMapping): MetricMapper {
  const matchers = rules.map((rule) => ({
    rule,
    match: rule.matchType === "glob" ? glob(rule.match) : regex(rule.match),
  }));
  const ordered = [
    ...matchers.filter(({ rule }) => rule.matchType === "glob"),
    ...matchers.filter(({ rule }) => rule.matchType === "regex"),
  ];
  const cache = new Map<string, MappedMetric | undefined>();
  const find: MetricMapper = (name, type) => {
    for (const { rule, match } of ordered) {
      if (rule.metricType !== undefined && rule.metricType !== type) continue;
      const groups = match(name);
      if (groups === undefined) continue;
      if (rule.drops) return undefined;
      return createMetric(rule, groups);
    }
    const help = "Metric autogenerated by statsd_exporter.";
    return {
      name: metricName(name),
      labels: {},
      help,
      scale: 1,
      observer,
      ...(buckets === undefined ? {} : { buckets }),
    };
  };
  return (name, type) => {
    const key = `${type} ${name}`;
    if (cache.has(key)) return cache.get(key);
    const metric = find(name, type);
    if (cache.size < maxCached) cache.set(key, metric);
    return metric;
  };
}

function createMetric(rule: MappingRule, groups: readonly string[]): MappedMetric {
  const fillTemplate = (template: string) =>
    template.replace(
      /\$(?:\{(\d+)\}|(\d+))/g,
      (_, braced?: string, plain?: string) => groups[Number(braced ?? plain)] ?? "",
    );
  const { help = "Metric autogenerated by statsd_exporter.", scale, observer, buckets } = rule;
  const labels = Object.entries(rule.labels).map(([label, template]) => [label, fillTemplate(template)] as const);
  return {
    name: metricName(fillTemplate(rule.name)),
    labels: Object.fromEntries(labels),
    ...{ help, scale, observer },
    ...(buckets === undefined ? {} : { buckets }),
  };
}

/** Returns the whole match and its groups. */
type Match = (name: string) => readonly string[] | undefined;

function glob(pattern: string): Match {
  const parts = pattern.split(".");
  return (name) => {
    const found = name.split(".");
    if (found.length !== parts.length) return undefined;
    if (!parts.every((part, i) => part === "*" || part === found[i])) return undefined;
    return [name, ...found.filter((_, i) => parts[i] === "*")];
  };
}

function regex(pattern: string): Match {
  const compiled = RE2JS.compile(pattern);
  return (name) => {
    const matcher = compiled.matcher(name);
    if (!matcher.find()) return undefined;
    return Array.from({ length: matcher.groupCount() + 1 }, (_, i) => matcher.group(i) ?? "");
  };
}

function metricName(text: string): string {
  return text.replace(/[^a-zA-Z0-9_:]/g, "_").replace(/^(?=\d)/, "_");
}
