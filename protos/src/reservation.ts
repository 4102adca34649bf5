/**
 * The fields by which a client reserves hits at the rate limit service of this project, in addition to the protocol of
 * Envoy. Other services ignore them, and a response without `heldAt` says so. Their numbers are those that protobuf
 * leaves to organisations.
 */

/** Fields of `envoy.service.ratelimit.v3.RateLimitRequest`. */
export const requestFields = {
  /**
   * bool: the call counts at all its descriptors, or at none if it is denied; a descriptor counts at most its limit.
   */
  reserves: 50_001,
  /** uint64, `heldAt` of an earlier response: hits are refunded to the windows of that time. Others are counted now. */
  heldAt: 50_002,
} as const;

/** Fields of `envoy.service.ratelimit.v3.RateLimitResponse`. */
export const responseFields = {
  /** uint64: the time of the call by the clock of the service, in ms since the epoch. Set if the call reserves. */
  heldAt: 50_001,
} as const;

/** Fields of `RateLimitResponse.DescriptorStatus`. */
export const statusFields = {
  /** uint64: the hits that are counted; absent without a counter, and in a denial. Set if the call reserves. */
  heldHits: 50_001,
} as const;
