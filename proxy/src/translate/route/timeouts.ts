/** Translates `HTTPRouteTimeouts` and `HTTPRouteRetry`, with the defaults that the API leaves to implementations. */
import { durationMs } from "../../api/duration.ts";
import type { HttpRouteRule } from "../../api/http-route.ts";
import type { RetryPolicy, Timeouts } from "../../ir/snapshot.ts";

/** Returns the timeouts in milliseconds. An absent one stays absent, and 0 is no timeout. */
export function translateTimeouts({ request, backendRequest }: NonNullable<HttpRouteRule["timeouts"]>): Timeouts {
  return {
    ...(request === undefined ? {} : { requestMs: durationMs(request) }),
    ...(backendRequest === undefined ? {} : { backendRequestMs: durationMs(backendRequest) }),
  };
}

/** The default of the definition since Gateway API 1.7, for files and for the definitions of earlier versions. */
const defaultAttempts = 1;
/** About the time in which a connection fails and another endpoint is tried. */
const defaultBackoffMs = 25;

/** Returns the retry policy. Default: 1 retry, a backoff of 25 ms, and no status codes. */
export function translateRetry({ codes, attempts, backoff }: NonNullable<HttpRouteRule["retry"]>): RetryPolicy {
  return {
    codes: codes ?? [],
    attempts: attempts ?? defaultAttempts,
    backoffMs: backoff === undefined ? defaultBackoffMs : durationMs(backoff),
  };
}
