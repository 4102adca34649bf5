/**
 * Forwards a request to its backend, and the response to the client: attempts at endpoints, one after the other, until
 * the response of one of them is forwarded (`response-relay.ts`) or none is left (`retry-rules.ts`). A request counts
 * once, however many attempts it needs. Its tokens are those of the last attempt, and an estimate for each attempt that
 * was retried although its LLM provider may bill it.
 */
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import type { FieldList } from "@gatewayproxy/http/ports";
import type { HeaderEditor } from "../../filters/header-edits.ts";
import { forwardedTrailers } from "../../filters/request-trailers.ts";
import type { ApiKeySource } from "../../ir/authentication.ts";
import type { RefundCause } from "../../ir/limit.ts";
import type { RetryPolicy } from "../../ir/snapshot.ts";
import type { TokenUsage } from "../../ir/usage.ts";
import type { Downstream } from "../../listen/downstream.ts";
import { saysTimeout } from "../../llm/charging.ts";
import type { StreamedError } from "../../llm/provider-error.ts";
import type { OutputMeans } from "../output-means.ts";
import type { UsageEdit } from "../../llm/usage-event-filter.ts";
import type { Ending } from "../../llm/usage-reader.ts";
import type { ProviderCall, RequestRecord } from "../../telemetry/request-record.ts";
import type { AttemptSpan, RequestSpan } from "../../telemetry/spans/request-span.ts";
import type { RequestTrace } from "../../telemetry/trace/request-trace.ts";
import type { UpstreamCall } from "../../upstream/call.ts";
import type { EndpointPool } from "../../upstream/endpoint-pool.ts";
import type { UpstreamFailure } from "../../upstream/failure.ts";
import type { TrailerSelection } from "../body/request-body.ts";
import type { BackendTarget } from "../compiled-rule.ts";
import {
  backendOverloaded,
  type LocalReply,
  noReadyEndpoint,
  providersOutOfQuota,
  upstreamFailed,
} from "../local-replies.ts";
import type { OutgoingRequest, ProviderRequest } from "../provider-request.ts";
import type { RealtimeSession } from "../realtime-session.ts";
import type { RequestReservation } from "../request-reservation.ts";
import type { AbandonedResponses } from "./abandoned-responses.ts";
import { AttemptHistory, mayBeBilled } from "./attempt-history.ts";
import { AttemptTrace } from "./attempt-trace.ts";
import { expireCall, onAttemptTimeout } from "./expire-call.ts";
import { isEventStream } from "./first-event.ts";
import { movesRequests, type ProviderChoice } from "./provider-choice.ts";
import type { RequestDeadline } from "./request-deadline.ts";
import { setTimerOfRequest } from "./request-timer.ts";
import { type RelayOwner, ResponseRelay } from "./response-relay.ts";
import { ResponseUsage } from "./response-usage.ts";
import { RetryRules } from "./retry-rules.ts";

/** The further providers of a request. */
export interface Failover {
  readonly choice: ProviderChoice;
  /** Prepares the request for another provider, as `prepareProviderRequest`. The body must be restorable. */
  prepare(target: BackendTarget, done: (prepared: ProviderRequest) => void): void;
}

/** The request as its next attempt sends it. */
type Outgoing = Pick<ForwardingOptions, "target" | "request" | "usageEdit">;

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
  /** The start of the request, monotonic. */
  readonly startMs: number;
  /** Gets the number of attempts, the endpoint, and what the response brings. */
  readonly record: RequestRecord;
  /** Of a request that someone watches, or that is logged in detail. */
  readonly trace: RequestTrace | undefined;
  /** Undefined if spans are not exported. */
  readonly span: RequestSpan | undefined;
  /** The backend; the attempts choose among its endpoints. */
  readonly target: BackendTarget;
  /** The request to the backend. */
  readonly request: OutgoingRequest;
  /** The header fields that may hold credentials of the client. */
  readonly credentials: readonly ApiKeySource[];
  /** Undefined if the request has no timeout. */
  readonly deadline: RequestDeadline | undefined;
  /** Gateway API `HTTPRouteTimeouts.backendRequest`; 0 is no timeout. */
  readonly attemptTimeoutMs: number;
  /** Maximum time without data from the endpoint; 0 is unlimited, undefined that of the pool. */
  readonly idleTimeoutMs: number | undefined;
  /** Gateway API `HTTPRouteRetry`; undefined repeats an attempt once, as `retry-rules.ts` describes. */
  readonly retry: RetryPolicy | undefined;
  /** Undefined if the backend has no list of providers. `target` is the first one otherwise. */
  readonly failover: Failover | undefined;
  /** The units that the request holds of its limits; undefined if it has no limits. */
  readonly reservation: RequestReservation | undefined;
  /** The response filters of the rule and its CORS headers; undefined if there are none. */
  readonly editResponse: HeaderEditor | undefined;
  /** What becomes of the usage event of a stream; undefined if the client gets it. */
  readonly usageEdit: UsageEdit | undefined;
  /** Whether tokens of the response are counted, for a limit or for the metrics. */
  readonly readsUsage: boolean;
  /** Learns the output of models; undefined if no limit reserves estimates. */
  readonly outputMeans: OutputMeans | undefined;
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
 * The attempts of one request. `start` begins, `abort` ends them with a local reply, and `close` is called when the
 * client has the response or has left.
 */
export class Forwarding implements RelayOwner, TrailerSelection {
  readonly #options: ForwardingOptions;
  readonly #history = new AttemptHistory();
  readonly #trace: AttemptTrace | undefined;
  readonly #retries: RetryRules;
  /**
   * - `attempting`: the latest attempt is in progress, or its response is being forwarded.
   * - `backingOff`: `#timer` begins the next attempt.
   * - `preparing`: the request is prepared for the next provider, which then gets an attempt.
   * - `over`: no attempt follows. The client has a local reply, has left, or gets what has been forwarded.
   */
  #state: "attempting" | "backingOff" | "preparing" | "over" = "attempting";
  /** The request for the provider of the latest attempt. */
  #outgoing: Outgoing;
  /** Ends an attempt without a response, or without an event, while there is another provider. */
  #silenceTimer: Timer | undefined;
  /** The request has left an attempt that its provider may bill, although no response shows its cost. */
  #mayHaveCost = false;
  /** The estimated usage of the attempts before the latest one that were retried and that a provider may bill. */
  #left: TokenUsage | undefined;
  /** The estimated usage of `#mayHaveCost`, which counts if the response of the next provider costs nothing. */
  #leftProvider: TokenUsage | undefined;
  /** A provider may bill the latest attempt, which has failed, or got a status that is retried. */
  #isBilled = false;
  /** The response of the latest attempt; undefined before the first one. */
  #relay: ResponseRelay | undefined;
  /** The latest attempt; undefined before the first one. */
  #call: UpstreamCall | undefined;
  /** The timeout of the attempt in progress, or the backoff before the next one. */
  #timer: Timer | undefined;

  constructor(options: ForwardingOptions) {
    const { clock, random, retry: policy, target, request, usageEdit, deadline, failover, trace } = options;
    const { retries: budget } = failover?.choice.list.backend ?? target.backend;
    this.#options = options;
    this.#trace = trace === undefined ? undefined : new AttemptTrace(clock, trace);
    this.#outgoing = { target, request, usageEdit };
    const rules = { clock, random, policy, budget, request, isForModel: target.ai !== undefined, deadline };
    this.#retries = new RetryRules({ ...rules, history: this.#history, hasProviders: failover !== undefined });
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

  /** The head of the response that was forwarded; empty for none. */
  get responseHeaders(): readonly string[] {
    return this.#relay?.sentHeaders ?? [];
  }

  /** Whether the attempt in progress holds a connection for which others wait. Tunnels have their own connections. */
  get delaysOthers(): boolean {
    const isTunnel = this.#options.request.upgrade !== undefined;
    return !isTunnel && this.#call?.connection !== undefined && this.#history.tried.at(-1)?.hasWaiting === true;
  }

  /** Bytes of the response that wait for the client, and were not passed on to its connection. */
  get bufferedBytes(): number {
    return this.#call?.bufferedBytes ?? 0;
  }

  /** The client reads more of the response. */
  resume(): void {
    this.#call?.resume();
  }

  /** Ends the request with `reply`, or only with its reason if a response has started. */
  abort(reply: LocalReply): void {
    const ending = this.#endingOfLatest();
    this.#stop();
    const relay = this.#relay;
    if (relay?.cutOff(reply.reason) === true) return;
    relay?.settle(ending, nothingMore);
    this.#options.reply(reply);
  }

  /** Makes no further attempt, and reads no more. */
  #stop(): void {
    this.#state = "over";
    this.#options.deadline?.cancel();
    this.#timer?.cancel();
    this.#silenceTimer?.cancel();
    this.#call?.abort();
  }

  /** The client has the response, or has left. `done` is called when the cost of the response is known. */
  close(done: () => void): void {
    const relay = this.#relay;
    if (this.#options.session?.readOn(done) === true) return;
    const ending = this.#endingOfLatest();
    if (relay !== undefined && this.#isBackendWorking() && this.#readOn(relay, done)) return;
    this.#stop();
    if (relay === undefined) done();
    else relay.close(ending, done);
  }

  /** `cutShort` if a provider may bill the latest attempt, whose response is not read. */
  #endingOfLatest(): Ending {
    const isBilled = this.#isBilled || this.#mayHaveCost || this.#history.hasTimedOut;
    return isBilled || this.#isBackendWorking() ? "cutShort" : "whole";
  }

  /** Whether the backend has the complete request and has not finished its response. */
  #isBackendWorking(): boolean {
    const call = this.#call;
    if (call?.isOver !== false || call.connection === undefined || this.#relay?.isInProgress !== true) return false;
    return this.#isSent;
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
    this.#silenceTimer?.cancel();
    relay.abandon(read, done);
    call.resume();
    return true;
  }

  readsErrorBody(status: number, headers: readonly string[]): boolean {
    return this.#options.failover?.choice.saysResetInBody(status, headers) === true;
  }

  acceptsStatus(status: number, headers: readonly string[], body: string): boolean {
    const { request, failover } = this.#options;
    this.#trace?.responded(status, headers);
    this.#silenceTimer?.cancel();
    failover?.choice.onHead(status, headers, body);
    if (this.#state === "attempting" && this.#moveOnFrom(status)) return false;
    if (this.#state === "attempting" && this.#retries.retries(status)) {
      const decision = this.#retries.byPolicy();
      this.#trace?.decided(`status ${status}`, decision);
      if (decision.kind === "retry") {
        this.#history.addRetriedStatus();
        this.#isBilled = saysTimeout(status);
        this.#call?.abort();
        this.#backOff(decision.waitMs);
        return false;
      }
    }
    // A response that is held may still be replaced.
    if (failover === undefined) request.body?.keepNoMore();
    return true;
  }

  holdsResponse(headers: readonly string[]): boolean {
    const { request, failover } = this.#options;
    if (failover === undefined) return false;
    if (!this.#canMoveOn(true) || request.method === "HEAD") {
      this.onBegun();
      return false;
    }
    if (isEventStream(headers)) this.#expectData();
    return true;
  }

  onHeldData(): void {
    this.#expectData();
  }

  acceptsErrorEvent(error: StreamedError): boolean {
    this.#options.failover?.choice.onError(error);
    return !movesRequests(error.status) || !this.#canMoveOn(false);
  }

  onErrorEvent({ status }: StreamedError): void {
    this.#trace?.failed(`the stream begins with an error like status ${status}`);
    this.#leave("error event");
  }

  onBegun(): void {
    const { request, failover } = this.#options;
    this.#silenceTimer?.cancel();
    failover?.choice.onBegun();
    request.body?.keepNoMore();
  }

  onFault(error: unknown): void {
    this.#options.fault(error);
  }

  /** The timeouts of a rule apply to responses. A switched connection lasts as long as it is used. */
  onSwitched(): void {
    const { deadline, failover, session } = this.#options;
    deadline?.cancel();
    this.#timer?.cancel();
    this.#silenceTimer?.cancel();
    failover?.choice.onBegun();
    session?.onSwitched(this.#outgoing.target.ai);
  }

  onUpstreamFailure(failure: UpstreamFailure): void {
    if (this.#state === "over") return;
    this.#trace?.failed(failure.message);
    this.#history.addFailure(failure);
    if (this.#continueAfter(failure)) return;
    const decision = this.#retries.afterFailure(failure);
    this.#trace?.decided(failure.kind, decision);
    if (decision.kind === "stop") {
      this.#isBilled = this.isBilled(failure);
      this.#reply(upstreamFailed(failure));
      return;
    }
    this.#isBilled = mayBeBilled(failure) && this.#isSent;
    if (decision.waitMs === 0) this.#attemptOnce();
    else this.#backOff(decision.waitMs);
  }

  isBilled(failure: UpstreamFailure): boolean {
    if (failure.kind === "timeout" || failure.isDisplaced === true) return true;
    return this.#left !== undefined && mayBeBilled(failure) && this.#isSent;
  }

  /** Whether the endpoint of the latest attempt has got the complete request. */
  get #isSent(): boolean {
    return this.#options.request.body?.waitsFor === undefined;
  }

  /**
   * Another attempt begins. Otherwise a client whose requests take too long would multiply what a provider bills, and
   * be charged once. A request that moves to another provider does so once, and costs what that one reports.
   */
  #chargeLatest(): void {
    if (!this.#isBilled) return;
    this.#left = this.#relay?.costIfLeft() ?? this.#left;
    this.#isBilled = false;
    this.#history.addCharge();
  }

  /** Moves the request to the next provider after a status. @returns false if it stays. */
  #moveOnFrom(status: number): boolean {
    const mayHaveCost = saysTimeout(status);
    if (!movesRequests(status) || !this.#canMoveOn(mayHaveCost)) return false;
    if (mayHaveCost) this.#leaveCost();
    this.#leave(`status ${status}`);
    return true;
  }

  #leaveCost(): void {
    this.#mayHaveCost = true;
    this.#leftProvider = this.#relay?.costIfLeft();
  }

  /** Moves the request on from a provider that has responded. */
  #leave(cause: string): void {
    this.#history.addRetriedStatus();
    this.#call?.abort();
    this.#moveOn(cause);
  }

  /** Continues a request of several providers after a failed attempt. @returns false if nothing of it can be used. */
  #continueAfter(failure: UpstreamFailure): boolean {
    const { failover } = this.#options;
    if (failover === undefined) return false;
    failover.choice.onFailure(failure);
    if (failure.kind === "aborted" || failure.kind === "unsendable") return false;
    const mayHaveCost = mayBeBilled(failure);
    if (!this.#canMoveOn(mayHaveCost)) return false;
    if (mayHaveCost) this.#leaveCost();
    this.#moveOn(failure.kind);
    return true;
  }

  /**
   * Whether another provider can get the request. A client that makes attempts fail after they have cost something
   * could otherwise multiply what its requests cost, so only one of these failures moves a request.
   *
   * @param mayHaveCost whether the provider may bill the attempt that is left.
   */
  #canMoveOn(mayHaveCost: boolean): boolean {
    const { failover } = this.#options;
    if (failover === undefined || this.#state !== "attempting" || (mayHaveCost && this.#mayHaveCost)) return false;
    return this.#isBodyRestorable && failover.choice.hasNext;
  }

  get #isBodyRestorable(): boolean {
    return this.#options.request.body?.isRestorable !== false;
  }

  /** @param cause of the failed attempt. */
  #moveOn(cause: string): void {
    const { record } = this.#options;
    this.#timer?.cancel();
    this.#silenceTimer?.cancel();
    const { key } = this.#outgoing.target.backend.backend;
    record.failovers = [...record.failovers, { provider: key, cause }];
    this.#trace?.moved(key, cause);
    this.#history.addMove();
    this.#prepareNext();
  }

  /** Prepares the request for the next provider, and sends it. */
  #prepareNext(): void {
    const { failover, fault } = this.#options;
    const next = failover?.choice.next();
    if (failover === undefined || next === undefined) {
      this.#reply(providersOutOfQuota(failover?.choice.resetMs ?? 0));
      return;
    }
    const { target } = next;
    this.#state = "preparing";
    failover.prepare(target, (prepared) => {
      if (this.#state !== "preparing") return;
      try {
        this.#sendPrepared(target, prepared);
      } catch (error) {
        fault(error);
      }
    });
  }

  #sendPrepared(target: BackendTarget, prepared: ProviderRequest): void {
    if (prepared.kind === "ready") {
      this.#outgoing = { target, request: prepared.request, usageEdit: prepared.usageEdit };
      this.#attemptOnce();
    } else if (this.#options.failover?.choice.hasNext === true && this.#isBodyRestorable) {
      // The request cannot be sent to this provider, such as one that prescribes another model.
      this.#prepareNext();
    } else {
      this.#reply(prepared.reply);
    }
  }

  /** Waits for the next data of a stream before its first event. */
  #expectData(): void {
    const ms = this.#options.failover?.choice.list.streamIdleTimeoutMs ?? 0;
    this.#silenceTimer?.cancel();
    if (ms > 0) this.#limitSilence(ms, `no event, and no data for ${ms} ms`);
  }

  /** Moves the request to the next provider after a silence. Without one, the attempt goes on. */
  #limitSilence(ms: number, message: string): void {
    const relay = this.#relay;
    this.#silenceTimer = setTimerOfRequest(this.#options, ms, () => {
      const call = this.#call;
      if (call?.isOver !== false || relay !== this.#relay || !this.#canMoveOn(true)) return;
      expireCall(call, this.#options.request.body);
      relay?.onFailure({ kind: "timeout", message }, call);
    });
  }

  #backOff(waitMs: number): void {
    this.#state = "backingOff";
    this.#setTimer(waitMs, () => this.#attemptAgain());
  }

  #attemptAgain(): void {
    // More of the body may have come than is kept, during the backoff.
    const isRound = this.#options.failover !== undefined;
    if (isRound ? this.#isBodyRestorable : this.#retries.isBodyKept) {
      this.#options.failover?.choice.restart();
      if (isRound) this.#prepareNext();
      else this.#attemptOnce();
    } else {
      this.#reply(upstreamFailed({ kind: "reset", message: "the request body is too long to be sent again" }));
    }
  }

  #attemptOnce(): void {
    const { client, record, idleTimeoutMs, attemptTimeoutMs, failover } = this.#options;
    const { target, request } = this.#outgoing;
    this.#state = "attempting";
    const pool = target.backend.pick(this.#history.tried, client, request.upgrade !== undefined);
    if (pool === "none" || pool === "overloaded") {
      this.#trace?.notPicked(pool, target, this.#history.tried);
      if (this.#canMoveOn(false)) this.#moveOn(pool === "none" ? "no ready endpoint" : "overloaded");
      else this.#reply(pool === "none" ? noReadyEndpoint : backendOverloaded);
      return;
    }
    this.#chargeLatest();
    const isRepeated = this.#history.add(pool);
    record.attempts++;
    record.endpoint = pool.address;
    if (failover !== undefined) record.provider = target.backend.backend.key;
    this.#trace?.started({ call: record.attempts, target, pool, request, tried: this.#history.tried.slice(0, -1) });
    this.#timer?.cancel();
    const attempt = this.#startSpan(pool);
    record.providerCall = this.#startProviderCall();
    const relay = this.#newRelay(attempt);
    this.#relay = relay;
    this.#call = undefined;
    failover?.choice.onSend();
    const { method, path, body, upgrade } = request;
    const headers = attempt === undefined ? request.headers : this.#headersOf(attempt);
    const call = pool.send(
      {
        method,
        path,
        fields: headers,
        body: body?.open(headers, failover === undefined && this.#retries.isLast(pool.target.protocol), this),
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
    if (call.isOver) return;
    if (attemptTimeoutMs > 0) this.#setTimer(attemptTimeoutMs, () => onAttemptTimeout(call, relay, body));
    const firstByteMs = failover?.choice.list.firstByteTimeoutMs ?? 0;
    if (firstByteMs > 0) this.#limitSilence(firstByteMs, `no response within ${firstByteMs} ms`);
  }

  /** No API of a model has trailers. */
  trailersToSend(trailers: FieldList): FieldList {
    const { downstream, credentials } = this.#options;
    const { target, request } = this.#outgoing;
    if (target.ai !== undefined) return [];
    return forwardedTrailers(trailers, {
      received: downstream.head.rawHeaders,
      sent: request.headers,
      edit: target.filters.editRequest,
      credentials: credentials.map(({ header }) => header),
      isHttp1: this.#history.tried.at(-1)?.target.protocol !== "h2",
    });
  }

  /** Undefined if the span of the attempt is not exported. */
  #startSpan({ endpoint }: EndpointPool): AttemptSpan | undefined {
    const { span, clock } = this.#options;
    if (span?.keepsCalls !== true) return undefined;
    const { target, request } = this.#outgoing;
    const { backend } = target.backend;
    return span.startAttempt({
      startMs: clock.monotonicMs(),
      backend: backend.key,
      host: endpoint.host,
      port: endpoint.port,
      scheme: backend.tls === undefined ? "http" : "https",
      method: request.method,
      path: request.path,
      ai: target.ai,
    });
  }

  #startProviderCall(): ProviderCall | undefined {
    const { clock, startMs: requestMs } = this.#options;
    const { target, request } = this.#outgoing;
    if (target.ai === undefined) return undefined;
    return {
      provider: target.ai.provider,
      path: request.path,
      requestMs,
      startMs: clock.monotonicMs(),
      firstTokenMs: undefined,
      endMs: undefined,
      failure: undefined,
    };
  }

  /**
   * The fields of the request, with the attempt as the parent in place of the request, unless a filter has removed it.
   */
  #headersOf(attempt: AttemptSpan): readonly string[] {
    const { headers } = this.#outgoing.request;
    return this.#options.span?.withParent(attempt, headers) ?? headers;
  }

  #newRelay(attempt: AttemptSpan | undefined): ResponseRelay {
    const { clock, downstream, record, reservation, editResponse, reportsCharge, session } = this.#options;
    const { providerCall } = record;
    const usage = this.#newUsage(providerCall);
    return new ResponseRelay({
      ...{ clock, downstream, record, reservation, editResponse, usage, reportsCharge, session, attempt, providerCall },
      owner: this,
    });
  }

  #newUsage(call: ProviderCall | undefined): ResponseUsage | undefined {
    const { clock, record, reservation, client, outputMeans, readsUsage: isCounted } = this.#options;
    const { request, target, usageEdit: edit } = this.#outgoing;
    if (!isCounted && edit === undefined) return undefined;
    const onFirstToken =
      call &&
      (() => {
        call.firstTokenMs = clock.monotonicMs();
      });
    return new ResponseUsage({
      ...{ record, reservation, request, ai: target.ai, outputMeans, client, isCounted, edit, onFirstToken },
      backend: target.backend.backend.key,
      before: this.#left,
      atLeast: this.#leftProvider,
    });
  }

  /** Sets the one timer of the state. */
  #setTimer(ms: number, action: () => void): void {
    this.#timer?.cancel();
    this.#timer = setTimerOfRequest(this.#options, ms, action);
  }

  /** Time until the attempt in progress times out. */
  #attemptRemainingMs({ sentMs }: ResponseRelay): number {
    const { attemptTimeoutMs, clock } = this.#options;
    return attemptTimeoutMs === 0 ? Number.POSITIVE_INFINITY : sentMs + attemptTimeoutMs - clock.monotonicMs();
  }

  #reply(reply: LocalReply): void {
    this.#stop();
    this.#relay?.settle(this.#endingOfLatest(), nothingMore);
    this.#options.reply(reply);
  }
}

function nothingMore(): void {
  // Only the charge is needed.
}
