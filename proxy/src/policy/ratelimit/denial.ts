/** The denial of a request by a limit: the facts for its response, and for the endpoint that explains denials. */
import type { GlobalDecider, GlobalLimit } from "../../ir/global-limit.ts";
import type { LocalLimit } from "../../ir/limit.ts";
import type { DescribedRequest } from "./global/descriptors.ts";
import type { ServiceDenial } from "./global/service-headers.ts";
import type { ShownLimit } from "./shown-limit.ts";
import type { LimitState } from "./window.ts";

/** A denial by the limit named in it. */
export type Denial = LocalDenial | GlobalDenial | ServiceUnavailable;

/** A denial by a counter of this process. */
export interface LocalDenial {
  readonly kind: "local";
  readonly limit: LocalLimit;
  /** The value of the entry's key for this request; undefined if the entry has no key or the request no value. */
  readonly key: string | undefined;
  readonly used: number;
  /** The window, on the monotonic clock. A sliding one ends when enough units for the request are restored. */
  readonly windowStartMs: number;
  readonly windowEndMs: number;
  /** The state of the entry that denied; of several the one whose window ends last. */
  readonly state: LimitState;
  /** Whole seconds until that entry allows requests again, at least 1. */
  readonly retryAfterSeconds: number;
  /** The limits of the same rule whose `when` is false for the request. */
  readonly notApplied: readonly LocalLimit[];
  /** The limits that the response names; undefined if it names no limit. */
  readonly named: NamedLimits | undefined;
}

/** The limits that the response to a denial names. */
export interface NamedLimits {
  /** Names of the limits that deny the request, of the policy of the denial alone. */
  readonly exhausted: readonly string[];
  /** For the header families that list limits. */
  readonly listed: readonly ShownLimit[];
  /** The one of `listed` that decides the denial, if it is one of them. */
  readonly denying: ShownLimit | undefined;
}

/** A denial by a global limit; the descriptors are those that were sent to the service. */
export interface GlobalDenial extends DescribedRequest {
  readonly kind: "global";
  readonly limit: GlobalLimit;
  readonly by: GlobalDecider;
  /** What denied: a response of the service, or a counter of this process in its place. */
  readonly cause: ServiceDenial | LocalDenial;
}

/**
 * The service of a global limit is unavailable, and the failure mode is `Closed`; the descriptors are those that would
 * have been sent.
 */
export interface ServiceUnavailable extends DescribedRequest {
  readonly kind: "unavailable";
  readonly limit: GlobalLimit;
  readonly by: "failureMode";
  /** The fallback denies the request, since the backend has no price for its model. */
  readonly isUnpriced?: true;
}
