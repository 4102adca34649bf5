/**
 * Forwards a request to its backend, and the response to the client: attempts at endpoints, one after the other, until the
 * response of one of them is forwarded (`response-relay.ts`) or none is left (`retry-rules.ts`). Limits do not see retries: a
 * request is charged once.
 */
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import { redactHeaders, redactPath, redactText } from "@gatewayproxy/runtime/redaction";
import type { HeaderEditor } from "../../filters/header-edits.ts";
import type { RefundCause } from "../../ir/limit.ts";
import type { RetryPolicy } from "../../ir/snapshot.ts";
import type { Downstream } from "../../listen/downstream.ts";
import type { UsageEdit } from "../../llm/usage-event-filter.ts";
import { loggedHeaders } from "../../telemetry/request-log.ts";
import type { RequestRecord } from "../../telemetry/request-record.ts";
import type { RequestTrace } from "../../telemetry/trace/request-trace.ts";
import type { UpstreamCall } from "../../upstream/call.ts";
import type { EndpointPool } from "../../upstream/endpoint-pool.ts";
import type { UpstreamFailure } from "../../upstream/failure.ts";
import type { BackendTarget } from "../compiled-rule.ts";
import { backendOverloaded, type LocalReply, noReadyEndpoint, upstreamFailed } from "../local-replies.ts";
import type { OutgoingRequest } from "../provider-request.ts";
import type { RealtimeSession } from "../realtime-session.ts";
import type { RequestReservation } from "../request-reservation.ts";
import { severityOfStatus } from "../trace-messages.ts";
import type { AbandonedResponses } from "./abandoned-responses.ts";
import { AttemptHistory } from "./attempt-history.ts";
import type { RequestDeadline } from "./request-deadline.ts";
import { type RelayOwner, ResponseRelay } from "./response-relay.ts";
import { ResponseUsage } from "./response-usage.ts";
import { type RetryDecision, RetryRules } from "./retry-rules.ts";

/** One allowed request, its backend, and the timeouts and retries of the rule. */
export interface ForwardingOptions {
  /** Times timeouts and backoffs. */
  readonly clock: Clock;
  /** 0 ≤ random() < 1 */
  readonly random: () => number;
  /** Receives the response. */
  readonly downstream: Downstream;
  /** Address of the client; an IPv6 address as its network. */
  readonly client: string;
  /** Gets the number of attempts, the endpoint, and what the response brings. */
  readonly record: RequestRecord;
  /** Of a request that someone watches, or that is logged in detail. */
  readonly trace: RequestTrace | undefined;
  /** The backend; the attempts choose among its endpoints. */
  readonly target: BackendTarget;
  /** The request to the backend. */
  readonly request: OutgoingRequest;
  /** Undefined if the request has no timeout. */
  readonly deadline: RequestDeadline | undefined;
  /** Gateway API `HTTPRouteTimeouts.backendRequest`; 0 is no timeout. */
  readonly attemptTimeoutMs: number;
  /** Maximum time without data from the endpoint; 0 is unlimited, undefined that of the pool. */
  readonly idleTimeoutMs: number | undefined;
  /** Gateway API `HTTPRouteRetry`; undefined repeats an attempt once, as `retry-rules.ts` describes. */
  readonly retry: RetryPolicy | undefined;
  /** The units that the request holds of its limits; undefined if it has no limits. */
  readonly reservation: RequestReservation | undefined;
  /** The response filters of the rule and its CORS headers; undefined if there are none. */
  readonly editResponse: HeaderEditor | undefined;
  /** What becomes of the usage event of a stream; undefined if the client gets it. */
  readonly usageEdit: UsageEdit | undefined;
  /** Whether tokens of the response are counted, for a limit or for the metrics. */
  readonly readsUsage: boolean;
  /** Whether the head of a response shows the rest of a token limit. */
  readonly reportsCharge: boolean;
  /** Counts what follows a switch of protocols; undefined: it passes unread. */
  readonly session: RealtimeSession | undefined;
  /** Reads responses for their usage after their clients have left; absent if no limit counts tokens. */
  readonly abandonedResponses: AbandonedResponses | undefined;
  /** Sends a local reply. Called at most once, and never after the start of a response. */
  readonly reply: (reply: LocalReply) => void;
  /** Takes what failed inside the proxy later than its caller could see. */
  readonly fault: (error: unknown) => void;
}

/**
 * The attempts of one request. `start` begins, `abort` ends them with a local reply, and `close` is called when the client has
 * the response or has left.
 */
export class Forwarding implements RelayOwner {
  readonly #options: ForwardingOptions;
  readonly #history = new AttemptHistory();
  readonly #retries: RetryRules;
  /**
   * - `attempting`: the latest attempt is in progress, or its response is being forwarded.
   * - `backingOff`: `#timer` begins the next attempt.
   * - `over`: no attempt follows. The client has a local reply, has left, or gets what has been forwarded.
   */
  #state: "attempting" | "backingOff" | "over" = "attempting";
  /** The response of the latest attempt; undefined before the first one. */
  #relay: ResponseRelay | undefined;
  /** The latest attempt; undefined before the first one. */
  #call: UpstreamCall | undefined;
  /** The timeout of the attempt in progress, or the backoff before the next one. */
  #timer: Timer | undefined;
  /** The start of the latest attempt, for a traced request. */
  #tracedMs = 0;

  constructor(options: ForwardingOptions) {
    const { clock, random, retry: policy, target, request, deadline } = options;
    const { retries: budget } = target.backend;
    this.#options = options;
    this.#retries = new RetryRules({ clock, random, policy, budget, request, history: this.#history, deadline });
  }

  /** Begins the first attempt. */
  start(): void {
    this.#retries.countRequest();
    this.#attemptOnce();
  }

  /** As `AttemptHistory.refundCause`. */
  refundCause(reply: LocalReply): RefundCause | undefined {
    return this.#history.refundCause(reply);
  }

  /** The start of the attempt in progress, on the monotonic clock. Undefined between attempts. */
  get attemptSinceMs(): number | undefined {
    return this.#call?.isOver === false ? this.#relay?.sentMs : undefined;
  }

  /** Whether the attempt in progress holds a connection for which others wait. Tunnels have their own connections. */
  get delaysOthers(): boolean {
    const isTunnel = this.#options.request.upgrade !== undefined;
    return !isTunnel && this.#call?.connection !== undefined && this.#history.tried.at(-1)?.hasWaiting === true;
  }

  /** The client reads more of the response. */
  resume(): void {
    this.#call?.resume();
  }

  /** Ends the request with `reply`, or only with its reason if a response has started. */
  abort(reply: LocalReply): void {
    const mayHaveCost = this.#isBackendWorking() || this.#history.hasTimedOut;
    this.#stop();
    const relay = this.#relay;
    if (relay?.cutOff(reply.reason) === true) return;
    if (mayHaveCost) relay?.settle("cutShort", nothingMore);
    this.#options.reply(reply);
  }

  /** Makes no further attempt, and reads no more. */
  #stop(): void {
    this.#state = "over";
    this.#options.deadline?.cancel();
    this.#timer?.cancel();
    this.#call?.abort();
  }

  /** The client has the response, or has left. `done` is called when the cost of the response is known. */
  close(done: () => void): void {
    const relay = this.#relay;
    if (this.#options.session?.readOn(done) === true) return;
    const isWorking = this.#isBackendWorking();
    if (isWorking && relay !== undefined && this.#readOn(relay, done)) return;
    this.#stop();
    if (relay === undefined) done();
    else relay.close(isWorking || this.#history.hasTimedOut ? "cutShort" : "whole", done);
  }

  /** Whether the backend has the complete request and has not finished its response. */
  #isBackendWorking(): boolean {
    const call = this.#call;
    if (call?.isOver !== false || call.connection === undefined || this.#relay?.isInProgress !== true) return false;
    return this.#options.request.body?.waitsFor === undefined;
  }

  /** Continues to read a response after its client has left. @returns false if that is not permitted, or useless. */
  #readOn(relay: ResponseRelay, done: () => void): boolean {
    const { abandonedResponses, client, record, deadline } = this.#options;
    const call = this.#call;
    if (abandonedResponses === undefined || call === undefined || record.requestBytes === 0) return false;
    const remainingMs = Math.min(deadline?.remainingMs ?? Number.POSITIVE_INFINITY, this.#attemptRemainingMs(relay));
    const read = abandonedResponses.begin(client, remainingMs, () => {
      call.abort();
      relay.settle("cutShort", nothingMore);
    });
    if (read === undefined) return false;
    this.#state = "over";
    this.#timer?.cancel();
    relay.abandon(read, done);
    call.resume();
    return true;
  }

  acceptsStatus(status: number, headers: readonly string[]): boolean {
    const { trace, request } = this.#options;
    trace?.emit(
      { ...this.#traceResult(), status, headers: redactHeaders(headers) },
      severityOfStatus(status),
      this.#tracedMs,
    );
    if (this.#state === "attempting" && this.#retries.retries(status)) {
      const decision = this.#retries.byPolicy();
      this.#logDecision(`status ${status}`, decision);
      if (decision.kind === "retry") {
        this.#history.addRetriedStatus();
        this.#call?.abort();
        this.#backOff(decision.waitMs);
        return false;
      }
    }
    request.body?.keepNoMore();
    return true;
  }

  onFault(error: unknown): void {
    this.#options.fault(error);
  }

  /** The timeouts of a rule apply to responses. A switched connection lasts as long as it is used. */
  onSwitched(): void {
    this.#options.deadline?.cancel();
    this.#timer?.cancel();
  }

  onUpstreamFailure(failure: UpstreamFailure): void {
    if (this.#state === "over") return;
    this.#options.trace?.emit({ ...this.#traceResult(), error: failure.message }, "error", this.#tracedMs);
    this.#history.addFailure(failure);
    const decision = this.#retries.afterFailure(failure);
    this.#logDecision(failure.kind, decision);
    if (decision.kind === "stop") this.#reply(upstreamFailed(failure));
    else if (decision.waitMs === 0) this.#attemptOnce();
    else this.#backOff(decision.waitMs);
  }

  #backOff(waitMs: number): void {
    this.#state = "backingOff";
    this.#setTimer(waitMs, () => this.#attemptAgain());
  }

  #attemptAgain(): void {
    // More of the body may have come than is kept, during the backoff.
    if (this.#retries.isBodyKept) this.#attemptOnce();
    else this.#reply(upstreamFailed({ kind: "reset", message: "the request body is too long to be sent again" }));
  }

  #attemptOnce(): void {
    const { target, client, request, record, trace, idleTimeoutMs, attemptTimeoutMs } = this.#options;
    const pool = target.backend.pick(this.#history.tried, client, request.upgrade !== undefined);
    if (pool === "none" || pool === "overloaded") {
      this.#logUnpicked(pool);
      this.#reply(pool === "none" ? noReadyEndpoint : backendOverloaded);
      return;
    }
    const isRepeated = this.#history.add(pool);
    record.attempts++;
    record.endpoint = pool.address;
    if (trace !== undefined) this.#traceAttempt(trace, pool);
    this.#state = "attempting";
    this.#timer?.cancel();
    const relay = this.#newRelay();
    this.#relay = relay;
    this.#call = undefined;
    const { method, path, headers, body, upgrade } = request;
    const call = pool.send(
      {
        method,
        path,
        fields: headers,
        body: body?.open(headers, this.#retries.isLast(pool.target.protocol)),
        upgrade,
        client,
        ...(idleTimeoutMs !== undefined && { idleTimeoutMs }),
      },
      relay,
      isRepeated,
    );
    // It may have failed within `send`, and the next attempt may have begun.
    if (this.#relay !== relay) return;
    this.#call = call;
    if (attemptTimeoutMs > 0 && !call.isOver) this.#setTimer(attemptTimeoutMs, () => onAttemptTimeout(call, relay));
  }

  #newRelay(): ResponseRelay {
    const { clock, downstream, record, reservation, editResponse, reportsCharge, session } = this.#options;
    const usage = this.#newUsage();
    return new ResponseRelay({
      ...{ clock, downstream, record, reservation, editResponse, usage, reportsCharge, session },
      owner: this,
    });
  }

  #newUsage(): ResponseUsage | undefined {
    const { record, reservation, request, client, readsUsage: isCounted, usageEdit: edit } = this.#options;
    if (!isCounted && edit === undefined) return undefined;
    return new ResponseUsage({ record, reservation, request, client, isCounted, edit });
  }

  /** Sets the one timer of the state. What fails then ends this request only. */
  #setTimer(ms: number, action: () => void): void {
    const { clock, fault } = this.#options;
    this.#timer?.cancel();
    this.#timer = clock.setTimer(ms, () => {
      try {
        action();
      } catch (error) {
        fault(error);
      }
    });
  }

  /** Time until the attempt in progress times out. */
  #attemptRemainingMs({ sentMs }: ResponseRelay): number {
    const { attemptTimeoutMs, clock } = this.#options;
    return attemptTimeoutMs === 0 ? Number.POSITIVE_INFINITY : sentMs + attemptTimeoutMs - clock.monotonicMs();
  }

  #reply(reply: LocalReply): void {
    this.#stop();
    // Once for all attempts, since the client gets at most one response.
    if (this.#history.hasTimedOut) this.#relay?.settle("cutShort", nothingMore);
    this.#options.reply(reply);
  }

  #traceAttempt(trace: RequestTrace, { endpoint, address }: EndpointPool): void {
    const { target, record, request, clock } = this.#options;
    const backend = target.backend.backend.key;
    const call = record.attempts;
    this.#tracedMs = clock.monotonicMs();
    trace.emit({ type: "backendCallStart", backend, target: address, endpoint: endpoint.name, call });
    const log = trace.log?.upstream;
    if (log === undefined) return;
    const { inUse, leftOut } = target.backend.choice(this.#history.tried.slice(0, -1));
    const others = leftOut.length > 0 && { leftOut };
    log.debug(
      { backend, endpoint: address, name: endpoint.name, call, candidates: inUse, ...others },
      "endpoint picked",
    );
    if (!log.isTracing) return;
    const { method, path, headers } = request;
    log.trace(
      { endpoint: address, call, method: redactText(method), path: redactPath(path), headers: loggedHeaders(headers) },
      "request head sent",
    );
  }

  #traceResult() {
    const { target, record } = this.#options;
    const backend = target.backend.backend.key;
    return { type: "backendCallResult" as const, backend, target: record.endpoint ?? "", call: record.attempts };
  }

  #logUnpicked(why: "none" | "overloaded"): void {
    const { trace, target } = this.#options;
    if (trace?.log === undefined) return;
    const { leftOut } = target.backend.choice(this.#history.tried);
    const { inFlight, waiting } = target.backend.load;
    trace.log.upstream.debug(
      { backend: target.backend.backend.key, leftOut, inFlight, waiting },
      why === "none" ? "no endpoint to pick" : "backend overloaded",
    );
  }

  #logDecision(cause: string, decision: RetryDecision): void {
    const log = this.#options.trace?.log?.upstream;
    if (decision.kind === "retry") log?.debug({ cause, waitMs: Math.round(decision.waitMs) }, "call retried");
    else if (decision.why !== undefined) log?.debug({ cause, why: decision.why }, "call not retried");
  }
}

function onAttemptTimeout(call: UpstreamCall, relay: ResponseRelay): void {
  // The response has arrived completely; the rest depends on the client.
  if (call.isOver) return;
  call.expire();
  relay.onFailure({ kind: "timeout", message: "no complete response within timeouts.backendRequest" }, call);
}

function nothingMore(): void {
  // Only the charge is needed.
}
