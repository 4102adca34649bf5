/**
 * Renders the counts of the service as lines of the statsd protocol with envoyproxy/ratelimit's names: the growth of
 * counters since the last time, the value of gauges, and a sample of the response times.
 */
import { cacheGauges, errorTypes, keysOf, responseTimeName, ruleMetrics, serviceMetrics } from "./metric-names.ts";
import type { TaggedName } from "./mogrifiers.ts";
import type { StatsSnapshot } from "./stats-snapshot.ts";

/** Values of counters by their full name. */
export type CounterValues = ReadonlyMap<string, number>;

/** Returns every counter by its statsd name, with tags. */
export function statsdCounters(stats: StatsSnapshot, extraTags: ReadonlyMap<string, string>): CounterValues {
  const counters = new Map<string, number>();
  const suffix = tagSuffix(extraTags);
  const add = (name: string, value: number) => counters.set(name + suffix, value);
  for (const { name, code, count } of stats.commands) {
    const tags = code === undefined ? suffix : tagSuffix(new Map([...extraTags, ["code", code]]));
    counters.set(`ratelimit.memcache.${name}${tags}`, count);
  }
  for (const { domain, segments, counts } of stats.series) {
    const prefix = ["ratelimit.service.rate_limit", ...[domain, ...segments].map(sanitize)].join(".");
    for (const key of keysOf(ruleMetrics)) add(`${prefix}.${ruleMetrics[key].statsd}`, counts[key]);
  }
  for (const [domain, count] of stats.domainsNotFound) {
    add(`ratelimit.service.rate_limit.${sanitize(domain)}.domain_not_found`, count);
  }
  for (const key of keysOf(errorTypes)) {
    add(`ratelimit.service.call.should_rate_limit.${errorTypes[key]}`, stats.service[key]);
  }
  for (const key of keysOf(serviceMetrics)) {
    add(`ratelimit.service.${serviceMetrics[key].statsd}`, stats.service[key]);
  }
  add("ratelimit_server.ShouldRateLimit.total_requests", stats.callTimes.calls);
  for (const { pool, opened, closed } of stats.pools) {
    add(`ratelimit.${pool}.cx_total`, opened);
    add(`ratelimit.${pool}.cx_local_close`, closed);
  }
  return counters;
}

/** A line to send, without its line break. */
export interface StatsdLine {
  readonly text: string;
  /** The counter whose growth the line reports, with the value that it reports up to; absent for gauges and times. */
  readonly counter?: readonly [name: string, value: number];
}

/** Renders a line from a name, with tags in envoyproxy/ratelimit's form, and the rest: `5|c`. */
export type WriteLine = (name: string, value: string) => string;

/** Tags stay in the name. */
const plainLine: WriteLine = (name, value) => `${name}:${value}`;

/**
 * Renders lines for DogStatsD: the tags of the name follow the value.
 *
 * @param rewrite Makes tags of parts of a name; they follow, too.
 */
export function dogStatsdLine(rewrite?: (name: string) => TaggedName): WriteLine {
  return (fullName, value) => {
    const { name, tags } = separateTags(fullName);
    const rewritten = rewrite?.(name) ?? { name, tags: [] };
    const all = [...tags, ...rewritten.tags];
    return `${rewritten.name}:${value}${all.length === 0 ? "" : `|#${all.join(",")}`}`;
  };
}

/** Separates the tags from a name in which they are written as in envoyproxy/ratelimit, `.__tag=value`. */
function separateTags(name: string): TaggedName {
  const [first = "", ...rest] = name.split(".__");
  const tags = rest.flatMap((tag) => {
    const equals = tag.indexOf("=");
    return equals === -1 ? [] : [`${tag.slice(0, equals)}:${tag.slice(equals + 1)}`];
  });
  return { name: first, tags };
}

/** Returns a line for each counter that grew since `before`, then response times and gauges. */
export function statsdLines(
  stats: StatsSnapshot,
  before: CounterValues,
  extraTags: ReadonlyMap<string, string>,
  write: WriteLine = plainLine,
): readonly StatsdLine[] {
  const suffix = tagSuffix(extraTags);
  const lines: StatsdLine[] = [];
  for (const [name, value] of statsdCounters(stats, extraTags)) {
    const added = value - (before.get(name) ?? 0);
    if (added > 0) lines.push({ text: write(name, `${added}|c`), counter: [name, value] });
  }
  const { samplesMs, sampledOf } = stats.callTimes;
  const rate = samplesMs.length < sampledOf ? `|@${(samplesMs.length / sampledOf).toPrecision(3)}` : "";
  for (const ms of samplesMs) {
    const name = responseTimeName + suffix;
    lines.push({ text: write(name, `${ms.toFixed(3)}|ms${rate}`) });
  }
  for (const [name, value] of statsdGauges(stats)) lines.push({ text: write(name + suffix, `${value}|g`) });
  return lines;
}

/** Returns every gauge by its statsd name, without tags. */
export function statsdGauges({ connections, cache, pools }: StatsSnapshot): readonly (readonly [string, number])[] {
  const gauges: (readonly [string, number])[] = [["ratelimit.service.grpc_connections", connections]];
  for (const { pool, active } of pools) gauges.push([`ratelimit.${pool}.cx_active`, active]);
  for (const { name, value } of cache === undefined ? [] : cacheGauges(cache)) {
    gauges.push([`ratelimit.localcache.${name}`, value]);
  }
  return gauges;
}

/**
 * Replaces characters with a meaning in the protocol by `_`; so too the dots of an IPv4 address, which would be levels.
 */
function sanitize(part: string): string {
  return part
    .replace(/(?<!\d)\d{1,3}(?:\.\d{1,3}){3}(?!\d)/g, (address) => address.replaceAll(".", "_"))
    .replace(/[:|\n]/g, "_");
}

/** Tags are part of the name: `.__zone=a.__team=b`. */
function tagSuffix(extraTags: ReadonlyMap<string, string>): string {
  return Array.from(extraTags, ([name, value]) => `.__${sanitize(name)}=${sanitize(value)}`)
    .sort()
    .join("");
}
