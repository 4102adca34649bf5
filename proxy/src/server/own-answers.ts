/** The answers that the proxy gives itself, each with the reason that the log and the metrics show. */
import type { RefundCause } from "../ir/limit.ts";
import { maxRepeats } from "../llm/request-json.ts";
import { maxCallValueBytes, maxValueBytes } from "../policy/ratelimit/global/call-size.ts";
import type { FailureReason } from "../telemetry/request-record.ts";
import type { UpstreamFailure } from "../upstream/failure.ts";

export interface OwnAnswer {
  readonly status: number;
  readonly reason: FailureReason;
  /** Short and fixed: nothing of the request, nothing of the inside. */
  readonly body: string;
  /** What happened, where a policy may give the request's unit back for it. */
  readonly refund?: RefundCause;
  /** Seconds after which another try makes sense. */
  readonly retryAfter?: number;
  /** Codings in which the body of the request would have been read (RFC 9110 §12.5.3). */
  readonly acceptEncoding?: string;
}

/** Gateway API: no listener or no rule matches. */
export const routeNotFound: OwnAnswer = { status: 404, reason: "RouteNotFound", body: "no route matches" };
/**
 * The regular expressions of the routes would take too long over its path or its fields. Which rule it belongs to is not
 * known, so it is refused: another rule might lack the filters and limits of the right one.
 */
export const matchTooCostly: OwnAnswer = {
  status: 400,
  reason: "MatchTooCostly",
  body: "the request is too costly to match",
};
/** The connection was made for another listener; the client may ask again by one of its own (RFC 9110 §15.5.20). */
export const misdirected: OwnAnswer = { status: 421, reason: "Misdirected", body: "misdirected request" };
/** Gateway API `HTTPRouteRule.backendRefs`: none, or one that is invalid. */
export const invalidBackend: OwnAnswer = {
  status: 500,
  reason: "InvalidBackend",
  body: "no valid backend",
  refund: "ConnectFailure",
};
/** Gateway API `HTTPRouteRule.backendRefs`: a Service without ready endpoints. */
export const noReadyEndpoint: OwnAnswer = {
  status: 503,
  reason: "NoReadyEndpoint",
  body: "no ready endpoint",
  refund: "ConnectFailure",
};
/** It has as much under way, or waiting, as the settings allow, or the request has waited as long as they allow. */
export const backendOverloaded: OwnAnswer = {
  status: 503,
  reason: "BackendOverloaded",
  body: "backend overloaded",
  refund: "Overload",
};
/** The log says why; the client learns no more than of a backend that configuration got wrong. */
const forbiddenAddress: OwnAnswer = { ...invalidBackend, reason: "ForbiddenAddress" };
const unsendable: OwnAnswer = { status: 503, reason: "UpstreamConnectFailure", body: "no connection to the backend" };
const connectFailure: OwnAnswer = { ...unsendable, refund: "ConnectFailure" };
const aborted: OwnAnswer = { status: 502, reason: "UpstreamReset", body: "the backend broke off" };
const upstreamReset: OwnAnswer = { ...aborted, refund: "Reset" };
/** The endpoint closed the stream without a look at the request. */
const upstreamRefused: OwnAnswer = { ...aborted, refund: "ConnectFailure" };
/** The upload has come to a standstill, and the client is what it waits for. */
export const trailersTooLarge: OwnAnswer = {
  status: 431,
  reason: "BadRequest",
  body: "the trailers of the request are too large",
};
export const uploadStalled: OwnAnswer = {
  status: 408,
  reason: "StreamIdleTimeout",
  body: "the request body took too long",
};
export const upstreamTimeout: OwnAnswer = {
  status: 504,
  reason: "UpstreamTimeout",
  body: "the backend took too long",
  refund: "Timeout",
};
/** Gateway API `HTTPRouteTimeouts.request` */
export const requestTimeout: OwnAnswer = {
  status: 504,
  reason: "RequestTimeout",
  body: "the request took too long",
  refund: "Timeout",
};
/** Gateway API `HTTPCORSFilter.allowOrigins` */
export const originNotAllowed: OwnAnswer = { status: 403, reason: "OriginNotAllowed", body: "origin not allowed" };
/** Servers read the path in several ways, which belong to different rules or limits. */
export const ambiguousPath: OwnAnswer = {
  status: 400,
  reason: "BadRequest",
  body: "the path can be read in more than one way",
};
/** A query parameter that a match or a limit reads comes twice with different values, and servers disagree which counts. */
export const conflictingParameter: OwnAnswer = {
  status: 400,
  reason: "BadRequest",
  body: "a query parameter comes twice with different values",
};
/** The body must be read before it goes on, and is longer than what is held. */
const bodyTooLarge: OwnAnswer = { status: 413, reason: "BadRequest", body: "request body too large" };
/** The body must be read before it goes on, and other bodies have all of the memory for them. */
export const bodyMemoryFull: OwnAnswer = {
  status: 503,
  reason: "BodyMemoryFull",
  body: "too many request bodies at once",
  retryAfter: 1,
};
/** Requests take more memory than they may (`--max-client-memory`), and the client has more than its part. */
export const headMemoryFull: OwnAnswer = {
  status: 503,
  reason: "HeadMemoryFull",
  body: "too many requests or too large headers at once",
  retryAfter: 1,
};
/** The body must be read before it goes on, or counted, and is compressed (RFC 9110 §15.5.16). */
export const bodyEncoded: OwnAnswer = {
  status: 415,
  reason: "BadRequest",
  body: "request body must not be encoded",
  acceptEncoding: "identity",
};
const badBody = (body: string): OwnAnswer => ({ status: 400, reason: "BadRequest", body });
/** The body must be read or edited, and servers could take it for different things. */
const unreadableBodies = {
  notObject: badBody("request body must be a JSON object"),
  repeated: badBody(`request body names a member such as "model" more than ${maxRepeats} times`),
  alternatives: badBody('request body must not name models beside "model": the backend prescribes one'),
  deferred: badBody(
    'this backend does not allow work whose tokens no answer tells: "background" and "deferred" must be false or left out',
  ),
  twoModels: badBody("request body names two models"),
};
/** A policy computes what a request costs, and it would take too much work for this one. */
export const costTooCostly: OwnAnswer = {
  status: 400,
  reason: "BadRequest",
  body: "the cost of the request takes too much work to compute",
};
/** A rate limit service counts by values of the request that are longer than its calls may have. */
export const limitValueTooLong: OwnAnswer = {
  status: 431,
  reason: "LimitValueTooLong",
  body: `a rate limit counts by values of the request that are too long, accepted are ${maxValueBytes} bytes, ${maxCallValueBytes} together`,
};
/** Nothing that passes after the switch could be counted. */
export const upgradeNotAllowed: OwnAnswer = {
  status: 403,
  reason: "UpgradeNotAllowed",
  body: "this backend does not allow to switch protocols",
};
/** No answer would tell the tokens of what is asked for, which a limit counts, or it would not have the prescribed model. */
export const deferredWorkNotAllowed: OwnAnswer = {
  status: 400,
  reason: "BadRequest",
  body: "this backend does not allow work whose tokens no answer tells, such as batches, jobs, runs and sessions",
};
/** What it asks for may cost tokens that no answer tells, or be done by another model than the prescribed one. */
export const endpointNotListed: OwnAnswer = {
  status: 400,
  reason: "BadRequest",
  body: "this path is none of the model endpoints that are served under a token limit or a prescribed model; a Backend with otherEndpoints: Allow serves others",
};
/** The path, the query or a header field names a model, and the Backend prescribes another. */
export const otherModel: OwnAnswer = {
  status: 400,
  reason: "BadRequest",
  body: "the backend prescribes another model than the path, the query or a header field names",
};
/** RFC 5842 §7.2 */
export const loopDetected: OwnAnswer = {
  status: 508,
  reason: "LoopDetected",
  body: "the request comes back to this gateway again and again; a backend of its route leads here",
};
export const mirrorLoopDetected: OwnAnswer = {
  status: 508,
  reason: "LoopDetected",
  body: "the request comes back to a rule of this gateway that mirrors, and the gateway has mirrored it already",
};
/** A rate limit service does not answer, and the policy says to let nothing pass meanwhile. */
export const limitUndecided: OwnAnswer = {
  status: 503,
  reason: "RateLimitServiceFailure",
  body: "the rate limit service does not answer",
};
/** A ProxyPolicy on the route or its Gateway cannot be read, and `--refused-policies` says to let nothing pass. */
export const policyRefused: OwnAnswer = {
  status: 503,
  reason: "PolicyRefused",
  body: "a policy of this route cannot be read",
};
export const internalFault: OwnAnswer = { status: 500, reason: "Internal", body: "internal error" };

/** Of a body that must be read or edited before it goes on, and has not one reading. */
export function uneditedAnswer(why: keyof typeof unreadableBodies): OwnAnswer {
  return unreadableBodies[why];
}

/** Of a body that must be read before it goes on, and could not be held. */
export function unheldAnswer({ isOutOfMemory }: { readonly isOutOfMemory: boolean }): OwnAnswer {
  return isOutOfMemory ? bodyMemoryFull : bodyTooLarge;
}

/** What a client is told of a backend that failed before its answer began. */
export function failureAnswer(failure: UpstreamFailure): OwnAnswer {
  switch (failure.kind) {
    case "connect":
      return connectFailure;
    case "unsendable":
      return unsendable;
    case "timeout":
      return upstreamTimeout;
    case "refused":
      return upstreamRefused;
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
