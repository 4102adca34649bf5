/**
 * Forwards an allowed request to its backend and the response back: the calls that are made for it, one after the
 * other, until one is passed on, and the timeouts over all of them (Gateway API `HTTPRouteTimeouts`, `HTTPRouteRetry`).
 *
 * A call without a connection, one that the endpoint has not processed, and a safe one that was reset before its response are
 * repeated once at another endpoint, with any rule. A rule with `retry` repeats calls with any method that failed or got one of
 * its codes, after a backoff. A body can be sent again while all received bytes are kept (`request-body.ts`). Limits do not see
 * any of this: a request is charged once.
 */
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import type { HeaderEditor } from "../filters/header-edits.ts";
import type { RefundCause } from "../ir/limit.ts";
import type { UsageEdit } from "../llm/usage-event-filter.ts";
import type { RetryPolicy, Timeouts } from "../ir/snapshot.ts";
import { redactHeaders, redactPath, redactText } from "@gatewayproxy/runtime/redaction";
import { loggedHeaders } from "../telemetry/request-log.ts";
import type { RequestRecord } from "../telemetry/request-record.ts";
import type { RequestTrace } from "../telemetry/trace/request-trace.ts";
import type { UpstreamCall } from "../upstream/call.ts";
import type { EndpointPool } from "../upstream/endpoint-pool.ts";
import type { UpstreamFailure } from "../upstream/failure.ts";
import type { AbandonedResponses } from "./abandoned-responses.ts";
import type { RequestReservation } from "./request-reservation.ts";
import type { BackendTarget } from "./compiled-rule.ts";
import type { Downstream } from "../listen/downstream.ts";
import {
  backendOverloaded,
  upstreamFailed,
  noReadyEndpoint,
  type LocalReply,
  requestTimeout,
} from "./local-replies.ts";
import type { OutgoingRequest } from "./provider-request.ts";
import { type RelayOwner, ResponseRelay } from "./response-relay.ts";
import { severityOfStatus } from "./trace-messages.ts";

/** One allowed request, its target, and the rule's timeouts and retries. */
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
  /** Monotonic; `timeouts.request` runs from here. */
  readonly startMs: number;
  /** The backend; the attempts choose among its endpoints. */
  readonly target: BackendTarget;
  /** Gateway API `HTTPRouteTimeouts`; undefined or 0 is no timeout. */
  readonly timeouts: Timeouts | undefined;
  /** Gateway API `HTTPRouteRetry`; undefined repeats an attempt once, at once, as the file comment says. */
  readonly retry: RetryPolicy | undefined;
  /** The units that the request holds of its limits; undefined if it has no limits. */
  readonly admission: RequestReservation | undefined;
  /** The response filters of the rule and its CORS headers; undefined if there are none. */
  readonly editResponse: HeaderEditor | undefined;
  /** Whether tokens of the response are counted, for a limit or for the metrics. */
  readonly readsUsage: boolean;
  /** Whether the head of a response shows the rest of a token limit. */
  readonly reportsCharge: boolean;
  /** Reads responses for their usage after their clients have left; absent if no limit counts tokens. */
  readonly abandonedResponses: AbandonedResponses | undefined;
  /** Sends a local reply. Called at most once, and never after the start of a response. */
  readonly reply: (reply: LocalReply) => void;
  /** Takes what failed inside the proxy later than its caller could see. */
  readonly fault: (error: unknown) => void;
}

/** Without `retry`: one more call, at once; and yet one where an endpoint has not looked at one. */
const attemptsWithoutPolicy = 2;
/** Waits double up to this, or to the rule's own `backoff` where that is longer. */
const maxBackoffMs = 10_000;
/** LLM responses may take many minutes until their first byte. Clients have shorter timeouts than this. */
const aiIdleTimeoutMs = 3_600_000;

/**
 * The attempts of one request. `send` begins, `abort` ends with a local reply, and `close` is called when the client
 * has the response or has left.
 */
export class Forwarding implements RelayOwner {
  readonly #options: ForwardingOptions;
  readonly #idleTimeoutMs: number | undefined;
  readonly #tried: EndpointPool[] = [];
  #request: OutgoingRequest | undefined;
  #usageEdit: UsageEdit | undefined;
  #relay: ResponseRelay | undefined;
  #call: UpstreamCall | undefined;
  #requestTimer: Timer | undefined;
  /** The timer of the call in progress, or of the wait for the next one. */
  #callTimer: Timer | undefined;
  #isOver = false;
  #wasUnprocessed = false;
  /** A call has timed out whose backend may have worked all the time. */
  #hasWorked = false;
  /** What became of an earlier call that an endpoint got. */
  #earlier: RefundCause | "none" | undefined;
  /** The start of the call in progress, for a traced request. */
  #callMs = 0;

  constructor(options: ForwardingOptions) {
    this.#options = options;
    this.#idleTimeoutMs = idleTimeoutOf(options);
    const { clock, startMs, timeouts } = options;
    const requestMs = timeouts?.requestMs ?? 0;
    if (requestMs === 0) return;
    const remainingMs = startMs + requestMs - clock.monotonicMs();
    this.#requestTimer = this.#later(Math.max(0, remainingMs), () => this.abort(requestTimeout));
  }

  /** As `setTimer`; what fails then ends this request only. */
  #later(ms: number, action: () => void): Timer {
    const { clock, fault } = this.#options;
    return clock.setTimer(ms, () => {
      try {
        action();
      } catch (error) {
        fault(error);
      }
    });
  }

  /** @param usageEdit what becomes of the usage event of a stream, where the client did not ask for it. */
  send(request: OutgoingRequest, usageEdit: UsageEdit | undefined): void {
    if (this.#isOver) return;
    this.#request = request;
    this.#usageEdit = usageEdit;
    const { target, retry, clock } = this.#options;
    if (retry !== undefined) target.backend.retries.countRequest(clock.monotonicMs());
    this.#callOnce();
  }

  /**
   * Returns the cause for which a policy may refund a request that ends with `reply`. What happened to an earlier call
   * decides where an endpoint got it: a backend that saw the request is not forgotten because the next one was away.
   */
  refundCause(reply: LocalReply): RefundCause | undefined {
    return this.#earlier === "none" ? undefined : (this.#earlier ?? reply.refund);
  }

  /** The start of the call in progress, on the monotonic clock. Undefined between calls. */
  get callSinceMs(): number | undefined {
    return this.#call === undefined || this.#call.isOver ? undefined : this.#relay?.sentMs;
  }

  /** Whether the call in progress holds a connection for which others wait. Tunnels have their own connections. */
  get delaysOthers(): boolean {
    const isTunnel = this.#request?.upgrade !== undefined;
    return !isTunnel && this.#call?.connection !== undefined && this.#tried.at(-1)?.hasWaiting === true;
  }

  /** Sends a local reply instead of a call that must not be made. */
  reject(reply: LocalReply): void {
    if (!this.#isOver) this.#sendLocalReply(reply);
  }

  /** The client reads more of the response. */
  resume(): void {
    this.#call?.resume();
  }

  /** Ends the request with `reply`, or only with its reason if a response has started. */
  abort(reply: LocalReply): void {
    const isWorking = this.#isBackendWorking() || this.#hasWorked;
    this.stop();
    if (this.#relay?.cutOff(reply.reason) === true) return;
    if (isWorking) this.#relay?.settle("cutShort", nothingMore);
    this.#options.reply(reply);
  }

  /** Makes no further call and sends nothing. */
  stop(): void {
    this.#isOver = true;
    this.#requestTimer?.cancel();
    this.#callTimer?.cancel();
    this.#call?.abort();
  }

  /** The exchange has ended. `done` is called when the cost of the response is known. */
  close(done: () => void): void {
    const relay = this.#relay;
    const isWorking = this.#isBackendWorking();
    if (isWorking && relay !== undefined && this.#readOn(relay, done)) return;
    this.stop();
    if (relay === undefined) done();
    else relay.settle(isWorking || this.#hasWorked ? "cutShort" : "whole", done);
  }

  /** Whether the backend has the complete request and has not finished its response. */
  #isBackendWorking(): boolean {
    const call = this.#call;
    if (call === undefined || call.isOver || call.connection === undefined || this.#relay?.isInProgress !== true) {
      return false;
    }
    const body = this.#request?.body;
    return body?.waitsFor === undefined;
  }

  /** Continues to read a response after its client has left. @returns false if that is not permitted, or useless. */
  #readOn(relay: ResponseRelay, done: () => void): boolean {
    const { abandonedResponses, client, record } = this.#options;
    const call = this.#call;
    if (abandonedResponses === undefined || call === undefined || record.requestBytes === 0) return false;
    const read = abandonedResponses.begin(client, Math.min(this.#remainingMs(), this.#callRemainingMs(relay)), () => {
      call.abort();
      relay.settle("cutShort", nothingMore);
    });
    if (read === undefined) return false;
    this.#isOver = true;
    this.#requestTimer?.cancel();
    this.#callTimer?.cancel();
    relay.abandon(read, done);
    call.resume();
    return true;
  }

  acceptsStatus(status: number, headers: readonly string[]): boolean {
    this.#options.trace?.emit(
      { ...this.#callResult(), status, headers: redactHeaders(headers) },
      severityOfStatus(status),
      this.#callMs,
    );
    if (this.#options.retry?.codes.includes(status) !== true || !this.#tryAgain(`status ${status}`)) {
      this.#request?.body?.keepNoMore();
      return true;
    }
    this.#earlier = "BackendError";
    return false;
  }

  onFault(error: unknown): void {
    this.#options.fault(error);
  }

  /** The timeouts of a rule apply to responses. A switched connection lasts as long as it is used. */
  onSwitched(): void {
    this.#requestTimer?.cancel();
    this.#callTimer?.cancel();
  }

  onUpstreamFailure(failure: UpstreamFailure): void {
    if (this.#isOver) return;
    this.#options.trace?.emit({ ...this.#callResult(), error: failure.message }, "error", this.#callMs);
    const { refund = "none" } = upstreamFailed(failure);
    if (refund !== "ConnectFailure" && refund !== "Overload") this.#earlier = refund;
    this.#hasWorked ||= failure.kind === "timeout";
    if (this.#options.retry === undefined && this.#isRepeatable(failure)) {
      this.#options.trace?.log?.upstream.debug({ cause: failure.kind, waitMs: 0 }, "call retried");
      this.#wasUnprocessed ||= failure.kind === "unprocessed";
      this.#callOnce();
    }
    // A request that waited too long does not wait again, and a forbidden address stays forbidden.
    else if (failure.kind === "overloaded" || failure.kind === "forbidden" || !this.#tryAgain(failure.kind)) {
      this.#sendLocalReply(upstreamFailed(failure));
    }
  }

  #callOnce(): void {
    const { target, client, timeouts, record } = this.#options;
    const request = this.#request;
    if (request === undefined) return;
    const pool = target.backend.pick(this.#tried, client, request.upgrade !== undefined);
    if (pool === "none" || pool === "overloaded") {
      this.#logUnpicked(pool);
      this.#sendLocalReply(pool === "none" ? noReadyEndpoint : backendOverloaded);
      return;
    }
    const isRepeated = this.#tried.includes(pool);
    this.#tried.push(pool);
    record.attempts++;
    record.endpoint = pool.address;
    if (this.#options.trace !== undefined) this.#traceCall(this.#options.trace, pool, request);
    const relay = this.#newRelay(request);
    this.#relay = relay;
    const { method, path, headers, body, upgrade } = request;
    const call = pool.send(
      {
        method,
        path,
        fields: headers,
        body: body?.open(headers, this.#isLastCall(pool)),
        upgrade,
        client,
        ...(this.#idleTimeoutMs !== undefined && { idleTimeoutMs: this.#idleTimeoutMs }),
      },
      relay,
      isRepeated,
    );
    this.#call = call;
    const timeoutMs = timeouts?.backendRequestMs ?? 0;
    if (timeoutMs > 0 && !call.isOver) {
      this.#callTimer = this.#later(timeoutMs, () => this.#onCallTimeout(call, relay));
    }
  }

  #traceCall(trace: RequestTrace, { endpoint, address }: EndpointPool, request: OutgoingRequest): void {
    const { target, record, clock } = this.#options;
    const backend = target.backend.backend.key;
    const call = record.attempts;
    this.#callMs = clock.monotonicMs();
    trace.emit({ type: "backendCallStart", backend, target: address, endpoint: endpoint.name, call });
    const log = trace.log?.upstream;
    if (log === undefined) return;
    const { inUse, leftOut } = target.backend.choice(this.#tried.slice(0, -1));
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

  #logUnpicked(why: "none" | "overloaded"): void {
    const { trace, target } = this.#options;
    if (trace?.log === undefined) return;
    const { leftOut } = target.backend.choice(this.#tried);
    const { inFlight, waiting } = target.backend.load;
    trace.log.upstream.debug(
      { backend: target.backend.backend.key, leftOut, inFlight, waiting },
      why === "none" ? "no endpoint to pick" : "backend overloaded",
    );
  }

  #callResult() {
    const { target, record } = this.#options;
    const backend = target.backend.backend.key;
    return { type: "backendCallResult" as const, backend, target: record.endpoint ?? "", call: record.attempts };
  }

  #newRelay(asked: OutgoingRequest): ResponseRelay {
    const { client, clock, downstream, record, admission, editResponse, readsUsage, reportsCharge } = this.#options;
    const usageEdit = this.#usageEdit;
    return new ResponseRelay({
      clock,
      downstream,
      record,
      admission,
      editResponse,
      readsUsage,
      reportsCharge,
      usageEdit,
      asked,
      client,
      owner: this,
    });
  }

  /** Without a policy: nothing was sent, or what was sent is safe to send again (RFC 9110 §9.2.2). */
  #isRepeatable(failure: UpstreamFailure): boolean {
    const calls = this.#options.record.attempts - (this.#wasUnprocessed ? 1 : 0);
    if (calls >= attemptsWithoutPolicy || !this.#mayReplayBody()) return false;
    if (failure.kind === "connect" || failure.kind === "unprocessed") return true;
    return failure.kind === "reset" && isSafe(this.#request?.method);
  }

  /** Whether no other call can follow once the one to `pool` has the whole body. */
  #isLastCall({ target }: EndpointPool): boolean {
    const { retry, record } = this.#options;
    if (retry !== undefined) return record.attempts > retry.attempts;
    // What HTTP/2 endpoints have not looked at is sent again; a safe request whatever became of it.
    return target.protocol !== "h2" && !isSafe(this.#request?.method);
  }

  /** By the rule's policy. @param cause why. @returns whether another call will be made, after a wait. */
  #tryAgain(cause: string): boolean {
    const { retry, record, target, clock, random } = this.#options;
    if (retry === undefined || this.#isOver) return false;
    if (record.attempts > retry.attempts) return this.#logNoRetry(cause, "retry.attempts is used up");
    if (!this.#mayReplayBody()) return this.#logNoRetry(cause, "the request body is not kept any more");
    const waitMs = backoffMs(retry.backoffMs, record.attempts, random());
    if (waitMs >= this.#remainingMs()) return this.#logNoRetry(cause, "timeouts.request ends before");
    if (!target.backend.retries.tryRetry(clock.monotonicMs())) {
      return this.#logNoRetry(cause, "too many requests to the backend are retried");
    }
    this.#callTimer?.cancel();
    this.#call?.abort();
    this.#options.trace?.log?.upstream.debug({ cause, waitMs: Math.round(waitMs) }, "call retried");
    this.#callTimer = this.#later(waitMs, () => this.#retry());
    return true;
  }

  /** @returns false: no other call is made. */
  #logNoRetry(cause: string, why: string): false {
    this.#options.trace?.log?.upstream.debug({ cause, why }, "call not retried");
    return false;
  }

  #retry(): void {
    // More of the body may have come than is kept, while we waited.
    if (this.#mayReplayBody()) {
      this.#callOnce();
    } else {
      this.#sendLocalReply(upstreamFailed({ kind: "reset", message: "the request body is too long to be sent again" }));
    }
  }

  #mayReplayBody(): boolean {
    const body = this.#request?.body;
    return body?.isReplayable !== false;
  }

  /** Until the request times out. */
  #remainingMs(): number {
    const { timeouts, startMs, clock } = this.#options;
    const requestMs = timeouts?.requestMs ?? 0;
    return requestMs === 0 ? Number.POSITIVE_INFINITY : startMs + requestMs - clock.monotonicMs();
  }

  /** Time until the call in progress times out. */
  #callRemainingMs({ sentMs }: ResponseRelay): number {
    const { timeouts, clock } = this.#options;
    const timeoutMs = timeouts?.backendRequestMs ?? 0;
    return timeoutMs === 0 ? Number.POSITIVE_INFINITY : sentMs + timeoutMs - clock.monotonicMs();
  }

  #onCallTimeout(call: UpstreamCall, relay: ResponseRelay): void {
    // The response has arrived completely; the rest depends on the client.
    if (call.isOver) return;
    call.expire();
    relay.onFailure({ kind: "timeout", message: "no complete response within timeouts.backendRequest" }, call);
  }

  #sendLocalReply(reply: LocalReply): void {
    this.stop();
    // Once for all calls, since the client gets at most one response.
    if (this.#hasWorked) this.#relay?.settle("cutShort", nothingMore);
    this.#options.reply(reply);
  }
}

function nothingMore(): void {
  // The charge is all that is wanted.
}

/** A timeout of the rule, even one that says 0, takes the place of the pool's own. */
function idleTimeoutOf({ timeouts, target }: ForwardingOptions): number | undefined {
  if (timeouts?.requestMs !== undefined || timeouts?.backendRequestMs !== undefined) return 0;
  return target.ai === undefined ? undefined : aiIdleTimeoutMs;
}

/** Doubles with each call, and up to half as much again at random, so that clients that failed together spread. */
function backoffMs(baseMs: number, calls: number, random: number): number {
  return Math.min(baseMs * 2 ** (calls - 1), Math.max(baseMs, maxBackoffMs)) * (1 + random / 2);
}

/** RFC 9110 §9.2.1 */
function isSafe(method: string | undefined): boolean {
  return method === "GET" || method === "HEAD" || method === "OPTIONS";
}
