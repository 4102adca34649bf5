/** Local replies: the responses that the proxy makes itself, each with the reason that the log and the metrics show. */
import type { RefundCause } from "../ir/limit.ts";
import { type ClientApi, modelError } from "../llm/client-api.ts";
import { maxRepeats } from "../llm/request-json.ts";
import { maxCallValueBytes, maxValueBytes } from "../policy/ratelimit/global/call-size.ts";
import type { FailureReason } from "../telemetry/request-record.ts";
import type { UpstreamFailure } from "../upstream/failure.ts";

/** A response that the proxy makes without an upstream. */
export interface LocalReply {
  readonly status: number;
  readonly reason: FailureReason;
  /** Short and constant: it repeats nothing of the request and discloses nothing of the configuration. */
  readonly body: string;
  /** Flat: the content type of `body`, and fields beside it. Absent: text. */
  readonly headers?: readonly string[];
  /** The cause for which a policy may refund the request (`refundOn`). Absent: none. */
  readonly refund?: RefundCause;
  /** The value of `retry-after` in seconds. */
  readonly retryAfter?: number;
  /** Values of `www-authenticate` (RFC 9110 §11.6.1), each a field of its own. */
  readonly challenges?: readonly string[];
  /** The content codings that are accepted in a request (`accept-encoding`, RFC 9110 §12.5.3). */
  readonly acceptEncoding?: string;
}

/** No listener or no rule matches (Gateway API `HTTPRouteRule`). */
export const routeNotFound: LocalReply = { status: 404, reason: "RouteNotFound", body: "no route matches" };
/**
 * Matching the request with the regular expressions of the routes exceeds the work budget. Its rule is unknown, and
 * another rule might lack the filters and limits of the right one.
 */
export const matchTooCostly: LocalReply = {
  status: 400,
  reason: "MatchTooCostly",
  body: "the request is too costly to match",
};
/** The connection belongs to another listener; the client may retry on a new connection (RFC 9110 §15.5.20). */
export const misdirected: LocalReply = { status: 421, reason: "Misdirected", body: "misdirected request" };
/** The rule has no backend, or an invalid one (Gateway API `HTTPRouteRule.backendRefs`). */
export const invalidBackend: LocalReply = {
  status: 500,
  reason: "InvalidBackend",
  body: "no valid backend",
  refund: "ConnectFailure",
};
/** The Service has no ready endpoint (Gateway API `HTTPRouteRule.backendRefs`). */
export const noReadyEndpoint: LocalReply = {
  status: 503,
  reason: "NoReadyEndpoint",
  body: "no ready endpoint",
  refund: "ConnectFailure",
};
/** The backend has as many requests in progress or pending as the settings allow, or the request waited too long. */
export const backendOverloaded: LocalReply = {
  status: 503,
  reason: "BackendOverloaded",
  body: "backend overloaded",
  refund: "Overload",
};
/** Every provider of the Backend is out of quota. @param resetMs until the first of them has its reset. */
export function providersOutOfQuota(resetMs: number): LocalReply {
  return {
    status: 503,
    reason: "ProvidersOutOfQuota",
    body: "every provider is out of quota",
    refund: "Overload",
    retryAfter: Math.max(1, Math.ceil(resetMs / 1_000)),
  };
}
/** The log has the reason; the client gets the same body as for an invalid backend. */
const forbiddenAddress: LocalReply = { ...invalidBackend, reason: "ForbiddenAddress" };
const unsendable: LocalReply = { status: 503, reason: "UpstreamConnectFailure", body: "no connection to the backend" };
const connectFailure: LocalReply = { ...unsendable, refund: "ConnectFailure" };
const aborted: LocalReply = { status: 502, reason: "UpstreamReset", body: "the backend reset the connection" };
const upstreamReset: LocalReply = { ...aborted, refund: "Reset" };
/** The endpoint closed the stream without processing the request (RFC 9113 §8.7). */
const upstreamUnprocessed: LocalReply = { ...aborted, refund: "ConnectFailure" };
/** The trailer section exceeds the limits of a head (RFC 6585 §5). */
export const trailersTooLarge: LocalReply = {
  status: 431,
  reason: "BadRequest",
  body: "the trailers of the request are too large",
};
/** The body breaks the rules of the protocol (RFC 9112 §7.1). @param error what was found. */
export function malformedBody(error: string): LocalReply {
  return { status: 400, reason: "BadRequest", body: `the request body cannot be read: ${error}` };
}
/** The client stopped sending the body. */
export const uploadStalled: LocalReply = {
  status: 408,
  reason: "StreamIdleTimeout",
  body: "the request body took too long",
};
/** Gateway API `HTTPRouteTimeouts.backendRequest`, or the backend was silent for longer than its idle timeout. */
export const upstreamTimeout: LocalReply = {
  status: 504,
  reason: "UpstreamTimeout",
  body: "the backend took too long",
  refund: "Timeout",
};
/** Gateway API `HTTPRouteTimeouts.request` */
export const requestTimeout: LocalReply = {
  status: 504,
  reason: "RequestTimeout",
  body: "the request took too long",
  refund: "Timeout",
};
/** Gateway API `HTTPCORSFilter.allowOrigins` */
export const originNotAllowed: LocalReply = { status: 403, reason: "OriginNotAllowed", body: "origin not allowed" };
/** Servers interpret the path in different ways, which match different rules or limits. */
export const ambiguousPath: LocalReply = {
  status: 400,
  reason: "BadRequest",
  body: "the path can be read in more than one way",
};
/** A query parameter of a match or a limit occurs twice with different values, and servers disagree on which to use. */
export const conflictingParameter: LocalReply = {
  status: 400,
  reason: "BadRequest",
  body: "a query parameter occurs twice with different values",
};
/** The body must be buffered, and exceeds the maximum. */
const bodyTooLarge: LocalReply = { status: 413, reason: "BadRequest", body: "request body too large" };
/** The body must be buffered, and other bodies use all of the memory for request bodies. */
export const bodyMemoryFull: LocalReply = {
  status: 503,
  reason: "BodyMemoryFull",
  body: "too many request bodies at once",
  retryAfter: 1,
};
/** Requests exceed `--max-client-memory`, and the client has more than its share. */
export const headMemoryFull: LocalReply = {
  status: 503,
  reason: "HeadMemoryFull",
  body: "too many requests or too large headers at once",
  retryAfter: 1,
};
/** The body must be read, and is compressed (RFC 9110 §15.5.16). */
export const bodyEncoded: LocalReply = {
  status: 415,
  reason: "BadRequest",
  body: "request body must not be encoded",
  acceptEncoding: "identity",
};
const badBody = (body: string): LocalReply => ({ status: 400, reason: "BadRequest", body });
/** The body must be read or edited, and servers could interpret it in different ways. */
const unreadableBodies = {
  notObject: badBody("request body must be a JSON object"),
  repeated: badBody(`request body has a member such as "model" more than ${maxRepeats} times`),
  alternatives: badBody('request body must not name models beside "model": the backend prescribes one'),
  deferred: badBody(
    'this backend does not allow work whose tokens no response reports: "background" and "deferred" must be false or left out',
  ),
  twoModels: badBody("request body names two models"),
};
/** An expression of a policy for the cost or the limit exceeds the work budget for this request. */
export const costTooCostly: LocalReply = {
  status: 400,
  reason: "BadRequest",
  body: "the cost or the limit of the request takes too much work to compute",
};
/** A limit counts what responses cost, and the Backend has no price for the model. */
export const modelUnpriced: LocalReply = {
  status: 403,
  reason: "ModelUnpriced",
  body: "a limit counts what responses cost, and the backend has no price for the model of the request; other models may have one",
};
/** Descriptors of a global limit have values of the request that exceed the size of a call. */
export const limitValueTooLong: LocalReply = {
  status: 431,
  reason: "LimitValueTooLong",
  body: `a rate limit uses values of the request that are too long, accepted are ${maxValueBytes} bytes, ${maxCallValueBytes} together`,
};
/** The gateway cannot count tokens after the switch of protocols. */
export const upgradeNotAllowed: LocalReply = {
  status: 403,
  reason: "UpgradeNotAllowed",
  body: "this backend does not allow switching protocols",
};
/**
 * A limit counts tokens that no response to the request would report, or the work would not use the prescribed model.
 */
export const deferredWorkNotAllowed: LocalReply = {
  status: 400,
  reason: "BadRequest",
  body: "this backend does not allow work whose tokens no response reports, such as batches, jobs, runs and sessions",
};
/** The request may cost tokens that no response reports, or use another model than the prescribed one. */
export const endpointNotListed: LocalReply = {
  status: 400,
  reason: "BadRequest",
  body: "this path is none of the model endpoints that are served under a token limit or a prescribed model; a Backend with otherEndpoints: Allow serves others",
};
/** The path, the query or a header field names a model, and the Backend prescribes another. */
export const otherModel: LocalReply = {
  status: 400,
  reason: "BadRequest",
  body: "the backend prescribes another model than the path, the query or a header field names",
};
/** The model of a limit, a rule or a backend is that of the body, and servers could use the other one. */
export const otherModelInTarget: LocalReply = {
  status: 400,
  reason: "BadRequest",
  body: "the path or the query names another model than the request body, or two models",
};
/** RFC 5842 §7.2 */
export const loopDetected: LocalReply = {
  status: 508,
  reason: "LoopDetected",
  body: "the request comes back to this gateway again and again; a backend of its route leads here",
};
/**
 * `CDN-Loop` (RFC 8586) shows that this Gateway, or two others, have mirrored the request before; its copies would be
 * copied, too.
 */
export const mirrorLoopDetected: LocalReply = {
  status: 508,
  reason: "LoopDetected",
  body: "a rule of this gateway would mirror the request again, and a gateway has mirrored it already",
};
/** `CDN-Loop` (RFC 8586) shows a call to a rate limit service, for which the rule would call one again. */
export const limitLoopDetected: LocalReply = {
  status: 508,
  reason: "LoopDetected",
  body: "the request is a call to a rate limit service, and a global limit of this route would call one for it",
};
/** A rate limit service is unavailable, and the policy fails closed. */
export const limitUnavailable: LocalReply = {
  status: 503,
  reason: "RateLimitServiceFailure",
  body: "the rate limit service is unavailable",
};
/** A ProxyPolicy on the route or its Gateway is invalid, and `--refused-policies` is `Closed`. */
export const policyRejected: LocalReply = {
  status: 503,
  reason: "PolicyRefused",
  body: "a policy of this route cannot be read",
};
/** An error inside the proxy, which the log describes. */
export const internalError: LocalReply = { status: 500, reason: "Internal", body: "internal error" };

/** The reply to a request for a model that no rule, or no backend of the rule, offers. */
export function modelNotFound(api: ClientApi): LocalReply {
  return { reason: "ModelNotFound", ...modelError(api, "unknown") };
}

/** The reply to a request for a model that names none, where the backend offers certain models only. */
export function modelMissing(api: ClientApi): LocalReply {
  return { reason: "BadRequest", ...modelError(api, "missing") };
}

/** The reply to a request whose body must be read or edited and is ambiguous. */
export function unreadableBody(why: keyof typeof unreadableBodies): LocalReply {
  return unreadableBodies[why];
}

/** Returns the reply to a request whose body must be buffered and could not be. */
export function bodyNotBuffered({ isOutOfMemory }: { readonly isOutOfMemory: boolean }): LocalReply {
  return isOutOfMemory ? bodyMemoryFull : bodyTooLarge;
}

/** Returns the reply to a request whose last attempt has failed before a response started. */
export function upstreamFailed(failure: UpstreamFailure): LocalReply {
  switch (failure.kind) {
    case "connect":
      return connectFailure;
    case "unsendable":
      return unsendable;
    case "timeout":
      return upstreamTimeout;
    case "unprocessed":
      return upstreamUnprocessed;
    case "reset":
      return upstreamReset;
    case "aborted":
      return aborted;
    case "overloaded":
      return backendOverloaded;
    case "forbidden":
      return forbiddenAddress;
  }
}
