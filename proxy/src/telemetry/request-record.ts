/**
 * What is known of one finished request: filled in by the server as the request goes, handed once to the access log
 * and the metrics when the last byte has left (or the client has).
 */
import type { GlobalDecision } from "../ir/global-limit.ts";
import type { LimitDecision } from "../ir/limit.ts";
import type { TokenUsage, UncountedReason } from "../ir/usage.ts";

/** Why the proxy itself answered or gave up; absent when the answer is the backend's own, in full. */
export type FailureReason =
  /** The request cannot be forwarded safely, for example two Host fields (400). */
  | "BadRequest"
  /** No listener or no rule matches (404). */
  | "RouteNotFound"
  /** The regular expressions of the routes would take too long over its path or its fields (400). */
  | "MatchTooCostly"
  /** The TLS connection was made for another listener (421). */
  | "Misdirected"
  /** The rule names no backend, or one that does not exist or may not be referred to (500). */
  | "InvalidBackend"
  /** The backend's address is one that the proxy does not connect to, such as its own admin server's (500). */
  | "ForbiddenAddress"
  /** The backend has no ready endpoint (503). */
  | "NoReadyEndpoint"
  /** The backend has as many requests under way, or waiting, as the settings allow, or this one waited too long (503). */
  | "BackendOverloaded"
  /** Bodies of other requests have all of the memory that the settings allow them (503). */
  | "BodyMemoryFull"
  /** The heads of requests take more memory than the settings allow, and the client has more than its part (503). */
  | "HeadMemoryFull"
  | "RateLimited"
  /** A global limit counts by a value of the request that is longer than a call to the service may have (431). */
  | "LimitValueTooLong"
  /** A global limit with `failureMode: Closed` whose service failed (503). */
  | "RateLimitServiceFailure"
  /** A policy on the route or its Gateway cannot be read, and the settings close its targets (503). */
  | "PolicyRefused"
  /** No connection to the endpoint could be made (503). */
  | "UpstreamConnectFailure"
  /** The endpoint broke off before its answer began (502), or in the middle of it. */
  | "UpstreamReset"
  /** One call took longer than the rule's `timeouts.backendRequest`, or the endpoint kept silent (504). */
  | "UpstreamTimeout"
  /** The request took longer than the rule's `timeouts.request` (504), or was cut off by it. */
  | "RequestTimeout"
  /** The client stopped sending its request (408), or reading the answer, for longer than the settings allow. */
  | "StreamIdleTimeout"
  /** A preflight from an origin that the rule's CORS filter does not allow (403). */
  | "OriginNotAllowed"
  /** A switch of protocols to an `ai` Backend whose `upgrades` is not `Allow` (403). */
  | "UpgradeNotAllowed"
  /** The request has come to this Gateway too often: a backend of its route leads back here (508). */
  | "LoopDetected"
  | "ClientDisconnect"
  /** A fault of ours (500); logged with its stack. */
  | "Internal";

export interface RequestRecord {
  /** Echoed or made by us; also the `x-request-id` header upstream. */
  requestId: string;
  /** Wall time at which the head of the request was complete, ms since the epoch. */
  startMs: number;
  durationMs: number;
  /** `1.0`, `1.1` or `2`. */
  httpVersion: string;
  method: string;
  scheme: string;
  authority: string;
  /** As received, query included. */
  path: string;
  /** Peer address of the connection. */
  sourceAddress: string;
  userAgent: string | undefined;
  /** Keys as in the snapshot; absent where the request did not get that far. */
  listener: string | undefined;
  route: string | undefined;
  rule: string | undefined;
  backend: string | undefined;
  /** `host:port` that was called. */
  endpoint: string | undefined;
  /** Calls to endpoints, retries included; 0 where the request did not get that far. */
  calls: number;
  /** 0 when the client left before an answer began. */
  status: number;
  reason: FailureReason | undefined;
  /** Body bytes as they passed, without framing. */
  requestBytes: number;
  /** What ids of tokens in the request's body lack to be four bytes long, for an estimate of its tokens. */
  missingIdBytes: number;
  responseBytes: number;
  /** From the upstream call to the head of its answer; absent without an answer. */
  upstreamMs: number | undefined;
  usage: TokenUsage | undefined;
  /** Why an answer that was read for its usage added nothing to a budget. */
  usageUnread: UncountedReason | undefined;
  /** One per entry that was evaluated; empty when none applies. Shared by the requests of a rule: never mutated. */
  decisions: readonly LimitDecision[];
  /** One per global limit that was asked; empty when none applies. */
  globalDecisions: readonly GlobalDecision[];
}
