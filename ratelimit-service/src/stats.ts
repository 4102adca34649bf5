/**
 * What the service counts about itself. Only the arithmetic lives here (near the limit, over it, within it: the figures
 * of envoyproxy/ratelimit to the unit); names and formats are the doors' business. Plain numbers, one set per thread.
 */
import { shownText } from "@gatewayproxy/runtime/redaction";

/** The counters of one rule, or of one value of it where the rule asks for that (`detailed_metric`). */
export interface RuleSeries {
  readonly domain: string;
  /** Composite keys from the top level on: `["key1_value1", "subkey1"]`; labels and name parts are made of them. */
  readonly segments: readonly string[];
  readonly counts: RuleCounts;
}

/** All in hits; a call with `hits_addend` 5 adds 5. */
export interface RuleCounts {
  totalHits: number;
  overLimit: number;
  nearLimit: number;
  withinLimit: number;
  /** The part of `overLimit` that was answered without asking the store. */
  overLimitWithLocalCache: number;
  /** Hits that a rule in shadow mode let pass. */
  shadowMode: number;
  /** Hits given back (`is_negative_hits`). */
  totalNegativeHits: number;
}

/** Counters of the service as a whole. */
export interface ServiceCounts {
  /** Calls that failed because the store did (`redis_error`). */
  storeError: number;
  /** Calls that failed for another reason (`service_error`). */
  serviceError: number;
  /** Calls answered without their counters while the store was away (FAILURE_MODE). */
  degraded: number;
  configLoadSuccess: number;
  configLoadError: number;
  /** Calls over their limit that SHADOW_MODE let pass. */
  globalShadowMode: number;
}

/** A descriptor's outcome as far as the counters care. */
export interface CountedHits {
  readonly hits: number;
  /** The counter before and after these hits. */
  readonly before: number;
  readonly after: number;
  readonly requestsPerUnit: number;
  readonly isOverLimit: boolean;
  readonly isShadow: boolean;
}

/** Names of values are a client's choice, so number and length are bounded; past it they count for their rule. */
const defaultMaxSeries = 10_000;
const maxNameLength = 1_024;

export class RateLimitStats {
  readonly service: ServiceCounts = {
    storeError: 0,
    serviceError: 0,
    degraded: 0,
    configLoadSuccess: 0,
    configLoadError: 0,
    globalShadowMode: 0,
  };
  readonly #nearLimitRatio: number;
  readonly #maxSeries: number;
  readonly #series = new Map<string, RuleSeries>();
  readonly #domainsNotFound = new Map<string, number>();
  #runtimeSeries = 0;

  /**
   * @param options.nearLimitRatio share of a limit from which hits count as near (NEAR_LIMIT_RATIO)
   * @param options.maxSeries series named after values of calls, not after rules; 10,000 unless given
   */
  constructor(options: { readonly nearLimitRatio: number; readonly maxSeries?: number }) {
    // The reference computes in 32 bits; so do we, or a threshold would differ by one here and there.
    this.#nearLimitRatio = Math.fround(options.nearLimitRatio);
    this.#maxSeries = options.maxSeries ?? defaultMaxSeries;
  }

  /** The series of a rule of the configuration. */
  ofRule(path: string, domain: string, segments: readonly string[]): RuleSeries {
    return this.#series.get(path) ?? this.#open(path, domain, segments);
  }

  /** A series named after values that a call brought; `undefined` for a name too long and once there are too many. */
  ofValues(path: string, domain: string, segments: readonly string[]): RuleSeries | undefined {
    if (path.length > maxNameLength) return undefined;
    const present = this.#series.get(path);
    if (present !== undefined || this.#runtimeSeries >= this.#maxSeries) return present;
    this.#runtimeSeries++;
    return this.#open(path, domain, segments);
  }

  /** Counts a call for a domain that no file describes. */
  countDomainNotFound(domain: string): void {
    const shown = shownText(domain);
    const isKnown = this.#domainsNotFound.has(shown);
    const isBounded = domain.length <= maxNameLength && this.#domainsNotFound.size < this.#maxSeries;
    const name = isKnown || isBounded ? shown : "other";
    this.#domainsNotFound.set(name, (this.#domainsNotFound.get(name) ?? 0) + 1);
  }

  /** All series, in the order of their first use. */
  series(): Iterable<RuleSeries> {
    return this.#series.values();
  }

  /** Calls for unknown domains, by domain. */
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
    // A call may cross the limit: 5 hits on 8 of 10 are 2 near the limit and 3 over it.
    const over = before >= requestsPerUnit ? hits : after - requestsPerUnit;
    counts.overLimit += over;
    if (before < requestsPerUnit) counts.nearLimit += requestsPerUnit - Math.max(near, before);
    if (outcome.isShadow) counts.shadowMode += over;
  }

  /** Counts hits refused on memory of an earlier answer. */
  countCachedOverLimit(counts: RuleCounts, hits: number, isShadow: boolean): void {
    counts.overLimit += hits;
    counts.overLimitWithLocalCache += hits;
    if (isShadow) counts.shadowMode += hits;
  }

  #open(path: string, domain: string, segments: readonly string[]): RuleSeries {
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
