/**
 * The counts behind the metrics of the service. This module only computes them (near the limit, over it, within it:
 * exactly the figures of envoyproxy/ratelimit); names and formats belong to `metrics/`. Plain numbers, one set per
 * thread.
 */
import { redactText } from "@gatewayproxy/runtime/redaction";

/** The counters of one rule, or of one value of it with `detailed_metric`. */
export interface RuleSeries {
  readonly domain: string;
  /**
   * Composite keys from the top level on: `["key1_value1", "subkey1"]`. Labels and parts of metric names derive from
   * them.
   */
  readonly segments: readonly string[];
  readonly counts: RuleCounts;
}

/** All in hits; a call with `hits_addend` 5 adds 5. */
export interface RuleCounts {
  totalHits: number;
  overLimit: number;
  nearLimit: number;
  withinLimit: number;
  /** The part of `overLimit` that the over-limit cache decided without the store. */
  overLimitWithLocalCache: number;
  /** Hits that shadow mode allowed. */
  shadowMode: number;
  /** Hits that were refunded (`is_negative_hits`). */
  totalNegativeHits: number;
}

/** Counters of the service as a whole. */
export interface ServiceCounts {
  /** Calls that failed because of the store (`redis_error`). */
  storeError: number;
  /** Calls that failed for another reason (`service_error`). */
  serviceError: number;
  /** Calls that were decided without their counters while the store was unavailable (FAILURE_MODE). */
  degraded: number;
  configLoadSuccess: number;
  configLoadError: number;
  /** Calls over their limit that SHADOW_MODE allowed. */
  globalShadowMode: number;
  /** Counters that operators deleted (`DELETE /counters`) and set (`POST /counters`). */
  countersDeleted: number;
  countersSet: number;
  /** Spans that a collector took, did not take, and that found the queue full. */
  spansExported: number;
  spansFailed: number;
  spansDropped: number;
  /** Lines of the log as records of OTLP, likewise. */
  logRecordsExported: number;
  logRecordsFailed: number;
  logRecordsDropped: number;
}

/** The outcome of one descriptor, as input of the counters. */
export interface CountedHits {
  readonly hits: number;
  /** The counter before and after these hits. */
  readonly before: number;
  readonly after: number;
  readonly requestsPerUnit: number;
  readonly isOverLimit: boolean;
  readonly isShadow: boolean;
}

/**
 * Clients choose the values, so the number of series and the length of names are bounded. Beyond the bounds, values
 * count for their rule.
 */
const defaultMaxSeries = 10_000;
const maxNameLength = 1_024;

/** The counters of one thread. */
export class RateLimitStats {
  readonly service: ServiceCounts = {
    storeError: 0,
    serviceError: 0,
    degraded: 0,
    configLoadSuccess: 0,
    configLoadError: 0,
    globalShadowMode: 0,
    countersDeleted: 0,
    countersSet: 0,
    spansExported: 0,
    spansFailed: 0,
    spansDropped: 0,
    logRecordsExported: 0,
    logRecordsFailed: 0,
    logRecordsDropped: 0,
  };
  readonly #nearLimitRatio: number;
  readonly #maxSeries: number;
  readonly #series = new Map<string, RuleSeries>();
  readonly #domainsNotFound = new Map<string, number>();
  #runtimeSeries = 0;

  /**
   * @param options.nearLimitRatio share of a limit from which hits count as near (NEAR_LIMIT_RATIO)
   * @param options.maxSeries maximum number of series that are named after values of calls; the default is 10,000
   */
  constructor(options: { readonly nearLimitRatio: number; readonly maxSeries?: number }) {
    // envoyproxy/ratelimit computes in 32 bits; with 64 bits some thresholds would differ by one.
    this.#nearLimitRatio = Math.fround(options.nearLimitRatio);
    this.#maxSeries = options.maxSeries ?? defaultMaxSeries;
  }

  /** Returns the series of a rule of the configuration. */
  ofRule(path: string, domain: string, segments: readonly string[]): RuleSeries {
    return this.#series.get(path) ?? this.#create(path, domain, segments);
  }

  /**
   * Returns a series named after values of a call; `undefined` when the name is too long or there are too many series.
   */
  ofValues(path: string, domain: string, segments: readonly string[]): RuleSeries | undefined {
    if (path.length > maxNameLength) return undefined;
    const existing = this.#series.get(path);
    if (existing !== undefined || this.#runtimeSeries >= this.#maxSeries) return existing;
    this.#runtimeSeries++;
    return this.#create(path, domain, segments);
  }

  /** Counts a call for a domain without configuration. */
  countDomainNotFound(domain: string): void {
    const shown = redactText(domain);
    const isKnown = this.#domainsNotFound.has(shown);
    const isBounded = domain.length <= maxNameLength && this.#domainsNotFound.size < this.#maxSeries;
    const name = isKnown || isBounded ? shown : "other";
    this.#domainsNotFound.set(name, (this.#domainsNotFound.get(name) ?? 0) + 1);
  }

  /** Returns all series, in the order of their first use. */
  series(): Iterable<RuleSeries> {
    return this.#series.values();
  }

  /** Returns the number of calls for unknown domains, by domain. */
  domainsNotFound(): ReadonlyMap<string, number> {
    return this.#domainsNotFound;
  }

  /** Counts hits that the store has counted. */
  countOutcome(counts: RuleCounts, outcome: CountedHits): void {
    const { hits, before, after, requestsPerUnit } = outcome;
    const near = Math.floor(Math.fround(Math.fround(requestsPerUnit) * this.#nearLimitRatio));
    if (!outcome.isOverLimit) {
      counts.withinLimit += hits;
      if (after > near) counts.nearLimit += before >= near ? hits : after - near;
      return;
    }
    // A call may cross the limit: 5 hits on 8 of 10 count 2 near the limit and 3 over it.
    const over = before >= requestsPerUnit ? hits : after - requestsPerUnit;
    counts.overLimit += over;
    if (before < requestsPerUnit) counts.nearLimit += requestsPerUnit - Math.max(near, before);
    if (outcome.isShadow) counts.shadowMode += over;
  }

  /** Counts hits that were denied by an earlier result in the over-limit cache. */
  countCachedOverLimit(counts: RuleCounts, hits: number, isShadow: boolean): void {
    counts.overLimit += hits;
    counts.overLimitWithLocalCache += hits;
    if (isShadow) counts.shadowMode += hits;
  }

  #create(path: string, domain: string, segments: readonly string[]): RuleSeries {
    const series: RuleSeries = {
      domain,
      segments,
      counts: {
        totalHits: 0,
        overLimit: 0,
        nearLimit: 0,
        withinLimit: 0,
        overLimitWithLocalCache: 0,
        shadowMode: 0,
        totalNegativeHits: 0,
      },
    };
    this.#series.set(path, series);
    return series;
  }
}
