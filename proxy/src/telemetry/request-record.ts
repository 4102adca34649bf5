/**
 * The record of one request. The server fills it in during the request, and passes it once to the access log and the
 * metrics when the last byte was sent or the client disconnected.
 */
import type { GlobalDecision } from "../ir/global-limit.ts";
import type { LimitDecision } from "../ir/limit.ts";
import type { AiBackend } from "../ir/snapshot.ts";
import type { TokenUsage, UncountedReason } from "../ir/usage.ts";

/** The reason of a local reply or a failure; absent when the response of the backend was complete. */
export type FailureReason =
  /** The request cannot be forwarded safely, for example two Host fields (400). */
  | "BadRequest"
  /** No listener or no rule matches (404). */
  | "RouteNotFound"
  /** No rule, or no backend of the rule, offers the model of the request (404). */
  | "ModelNotFound"
  /** A limit counts what responses cost, and the Backend has no price for the model of the request (403). */
  | "ModelUnpriced"
  /** Matching the regular expressions of the routes against its path or fields would take too long (400). */
  | "MatchTooCostly"
  /** The TLS connection was made for another listener (421). */
  | "Misdirected"
  /** A policy requires authentication, and the request has no valid credential (401). */
  | "Unauthenticated"
  /** A policy requires authentication, and the credential cannot be verified now (503). */
  | "AuthenticationUnavailable"
  /** The rule has no backend, or one that does not exist or that the route may not refer to (500). */
  | "InvalidBackend"
  /**
   * The address of the backend is one to which the proxy does not connect, such as that of its own admin server (500).
   */
  | "ForbiddenAddress"
  /** The backend has no ready endpoint (503). */
  | "NoReadyEndpoint"
  /**
   * As many requests to the backend are in progress or pending as the settings allow, or this one was pending too long
   * (503).
   */
  | "BackendOverloaded"
  /** Every provider of the backend is out of quota until a reset (503). */
  | "ProvidersOutOfQuota"
  /** Bodies of other requests use all memory that the settings allow (503). */
  | "BodyMemoryFull"
  /** The heads of requests use more memory than the settings allow, and this client uses more than its share (503). */
  | "HeadMemoryFull"
  | "RateLimited"
  /** A global limit counts by a value of the request that is longer than a call of the service may contain (431). */
  | "LimitValueTooLong"
  /** The service of a global limit with `failureMode: Closed` is unavailable (503). */
  | "RateLimitServiceFailure"
  /** A policy on the route or its Gateway cannot be read, and `--refused-policies Closed` closes its targets (503). */
  | "PolicyRefused"
  /** No connection to the endpoint could be made (503). */
  | "UpstreamConnectFailure"
  /** The endpoint reset the stream or connection before its response (502) or during it. */
  | "UpstreamReset"
  /**
   * An attempt took longer than the rule's `timeouts.backendRequest`, or the endpoint exceeded the idle timeout (504).
   */
  | "UpstreamTimeout"
  /** The request took longer than the rule's `timeouts.request`: before the response (504), or during it. */
  | "RequestTimeout"
  /** The client neither sent its request (408) nor read the response for longer than the idle timeout. */
  | "StreamIdleTimeout"
  /** A preflight from an origin that the rule's CORS filter does not allow (403). */
  | "OriginNotAllowed"
  /** A protocol upgrade to an `ai` Backend whose `upgrades` is not `Allow` (403). */
  | "UpgradeNotAllowed"
  /** The request came to this Gateway too often: a backend of its route leads back to it (508). */
  | "LoopDetected"
  | "ClientDisconnect"
  /** An internal error (500); logged with its stack. */
  | "Internal";

/** An attempt after which a request has moved to another provider. */
export interface Failover {
  /** The key of the provider that got it. */
  readonly provider: string;
  /** `status 429`, or the kind of the failure. */
  readonly cause: string;
}

/** A call of an LLM provider. Times are monotonic, in ms. */
export interface ProviderCall {
  readonly provider: AiBackend["provider"];
  /** As the provider got it. */
  readonly path: string;
  /** The start of the request that it is for, and its own. */
  readonly requestMs: number;
  readonly startMs: number;
  /** Undefined while none has come, and for a response that is not streamed. */
  firstTokenMs: number | undefined;
  /** Undefined while it is in progress. */
  endMs: number | undefined;
  /** The kind of the failure; undefined for none. */
  failure: string | undefined;
}

/** The record of one request. */
export interface RequestRecord {
  /** The client's id or a new one; also sent upstream as `x-request-id`. */
  requestId: string;
  /**
   * The trace of the request: ours where the proxy traces, or that of the client's `traceparent`. 32 hexadecimal
   * digits.
   */
  traceId: string | undefined;
  /** Our span of the request; that of the client where the proxy does not trace. 16 hexadecimal digits. */
  spanId: string | undefined;
  /** Whether our span of the request is exported; known at its end. */
  isExported: boolean;
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
  /** Keys as in the snapshot; undefined while the request is not matched. */
  listener: string | undefined;
  route: string | undefined;
  rule: string | undefined;
  /** The verified identity: `jwt alice`, `apiKey default/acme`. Undefined without one. */
  identity: string | undefined;
  /** The result of authentication: `accepted`, `anonymous`, or a fault; undefined where no policy authenticates. */
  authentication: string | undefined;
  backend: string | undefined;
  /**
   * The model that the request names, where the gateway reads it; undefined where it does not, and where there is none.
   */
  clientModel: string | undefined;
  /** The model that the backend gets, where the gateway knows it before the response. */
  requestModel: string | undefined;
  /** Whether the backend lists the model, so that the names of the configuration are known to be few. */
  isListedModel: boolean;
  /** The key of the provider that got the last attempt; undefined if the backend has no list of providers. */
  provider: string | undefined;
  /** The last attempt, if it is at an LLM provider. */
  providerCall: ProviderCall | undefined;
  /** Each attempt after which the request has moved to another provider. */
  failovers: readonly Failover[];
  /** `host:port` of the last attempt. */
  endpoint: string | undefined;
  /** Attempts, including retries; 0 where there was none. */
  attempts: number;
  /** 0 when the client disconnected before a response began. */
  status: number;
  /**
   * The code of `grpc-status` in the response (google.rpc.Code); undefined if it has none, as for other requests than
   * gRPC.
   */
  grpcStatus: number | undefined;
  reason: FailureReason | undefined;
  /** Bytes of the body as they were received, without framing. */
  requestBytes: number;
  /**
   * The sum, over token ids in the request's body, of the bytes that each lacks to four; used to estimate its tokens.
   */
  missingIdBytes: number;
  responseBytes: number;
  /** From the start of the attempt to the head of its response; undefined without a response. */
  upstreamMs: number | undefined;
  usage: TokenUsage | undefined;
  /** Whether the backend has prices, and none for the model of a response. */
  isUnpriced: boolean;
  /** The reason for which a response that was read for its usage added nothing to a token limit. */
  usageUnread: UncountedReason | undefined;
  /** One per evaluated entry; empty where none applies. Shared by the requests of a rule, so never mutated. */
  decisions: readonly LimitDecision[];
  /** One per evaluated global limit; empty where none applies. */
  globalDecisions: readonly GlobalDecision[];
}
