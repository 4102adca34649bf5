/**
 * One request from its head to its last byte: route, preflight, limits (`limit-check.ts`), target, filters; the calls to
 * the backend and its response are in `forwarding.ts`. Each step either continues or responds; the record of what happened is passed on
 * once, when the client has everything or has gone.
 */
import type { Task } from "@gatewayproxy/admin-api/tasks";
import type { Clock } from "@gatewayproxy/runtime/clock";
import { networkOf } from "@gatewayproxy/runtime/ip-address";
import { redactText } from "@gatewayproxy/runtime/redaction";
import type { RequestView } from "../cel/request-view.ts";
import { RequestWork } from "../cel/request-work.ts";
import { preflightHeaders, readPreflight, setCorsHeaders } from "../filters/cors.ts";
import { forwardRequestHeaders } from "../filters/forwarded.ts";
import type { HeaderEditor } from "../filters/header-edits.ts";
import { clientAddress } from "../filters/client-address.ts";
import { isLoop, isMirrored, loopField, withPass } from "../filters/loop.ts";
import { redirectLocation } from "../filters/redirect.ts";
import { rewritePath } from "../filters/url-rewrite.ts";
import type { Match } from "../ir/match.ts";
import type { Listener } from "../ir/snapshot.ts";
import { defaultUsageChunk } from "../ir/usage.ts";
import type { Denial } from "../policy/ratelimit/denial.ts";
import type { RouteMatch } from "../routing/compile-routes.ts";
import { hasConflictingParameter } from "../routing/query-parameters.ts";
import { passedOver } from "../routing/passed-over.ts";
import type { PathRules } from "../routing/path-rules.ts";
import type { RequestRecord } from "../telemetry/request-record.ts";
import type { RequestTrace } from "../telemetry/trace/request-trace.ts";
import type { Tracer } from "../telemetry/trace/tracer.ts";
import type { AbandonedResponses } from "./abandoned-responses.ts";
import type { BodyBudget } from "./body-budget.ts";
import type { BackendTarget, CompiledRule, CompiledTarget, RedirectTarget } from "./compiled-rule.ts";
import type { Connection } from "../listen/connection.ts";
import type { Downstream, DownstreamEvents } from "../listen/downstream.ts";
import { Forwarding } from "./forwarding.ts";
import { LimitCheck, type LimitCheckResult } from "./limit-check.ts";
import type { Linked, LinkedSet } from "./linked-set.ts";
import { LoggedDownstream } from "./logged-downstream.ts";
import { type MirrorServices, mirrorRequest } from "./mirror.ts";
import { newRecord } from "./new-record.ts";
import {
  bodyMemoryFull,
  conflictingParameter,
  headMemoryFull,
  internalError,
  invalidBackend,
  loopDetected,
  malformedBody,
  mirrorLoopDetected,
  noReadyEndpoint,
  originNotAllowed,
  type LocalReply,
  policyRejected,
  routeNotFound,
  trailersTooLarge,
  uploadStalled,
  upstreamTimeout,
} from "./local-replies.ts";
import { type OutgoingRequest, prepareProviderRequest, type ProviderRequest } from "./provider-request.ts";
import { largeBodyBytes, RequestBody } from "./request-body.ts";
import type { HeldRequest } from "../listen/client-connections.ts";
import type { Stallable, StallState } from "./stream-idle-timeouts.ts";
import { memoryInProgress } from "../listen/request-memory.ts";
import {
  llmUsage,
  policySelection,
  requestFinished,
  requestStarted,
  routeSelection,
  severityOfStatus,
} from "./trace-messages.ts";

/** What all exchanges of a listening address share. */
export interface ExchangeServices extends MirrorServices {
  /** Port of the listeners, as their Gateways name it. */
  readonly listenerPort: number;
  /** The source of all times of requests. */
  readonly clock: Clock;
  /** 0 ≤ random() < 1 */
  readonly random: () => number;
  /** Proxies in front whose word about the client's address is taken. */
  readonly trustedHops: number;
  /** Bits of a client's IPv6 address that `source.address` shows. */
  readonly ipv6PrefixLength: number;
  /** Returns a new id, for requests without a valid `x-request-id`. */
  readonly createRequestId: () => string;
  /** Memory for request bodies. */
  readonly bodies: BodyBudget;
  /** All exchanges that have begun and not ended. */
  readonly live: LinkedSet<Exchange>;
  /** Reads the rest of responses whose clients have left, for their usage. */
  readonly abandonedResponses: AbandonedResponses;
  /** Who waits for a request to watch, and the log of single requests. */
  readonly tracer: Tracer;
  /** As paths of requests and of routes are read. */
  readonly pathRules: PathRules;
  /** Called when a limit denies the request, before the response. */
  readonly denied: (record: RequestRecord, denial: Denial) => void;
  /** Called once per exchange, first. */
  readonly started: () => void;
  /** Takes the record over; called once per exchange, last. */
  readonly finished: (record: RequestRecord) => void;
  /** An internal error, for the log. */
  readonly faulted: (error: unknown, record: RequestRecord) => void;
}

/** Rules that do not match which a trace lists. */
const maxPassedOver = 50;

/**
 * A request and its response. `serve` or `reject` is called once after the constructor; from then on it follows the
 * events of its `Downstream`.
 */
export class Exchange implements DownstreamEvents, Stallable, HeldRequest, Linked<Exchange> {
  before: Exchange | undefined;
  after: Exchange | undefined;
  stallState: StallState | undefined;
  readonly #services: ExchangeServices;
  #downstream: Downstream;
  readonly #record: RequestRecord;
  readonly #startMs: number;
  #rule: CompiledRule | undefined;
  #body: RequestBody | undefined;
  #limitCheck: LimitCheck | undefined;
  /** Of a request that someone watches, or that is logged in detail. */
  #trace: RequestTrace | undefined;
  /** The client has what it gets, or has gone. */
  #isClosed = false;
  /** Asked for in few requests. */
  #memoryBytes: number | undefined;
  #forwarding: Forwarding | undefined;

  constructor(services: ExchangeServices, downstream: Downstream) {
    this.#services = services;
    this.#downstream = downstream;
    this.#startMs = services.clock.monotonicMs();
    this.#record = newRecord(services, downstream);
    services.live.add(this);
    services.started();
  }

  get connection(): Connection {
    return this.#downstream.connection;
  }

  /** Its description and what it waits for, for operators. @param nowMs monotonic */
  describe(nowMs: number): Task {
    const { requestId, method, path, route, backend, endpoint, status, attempts } = this.#record;
    const children: Task[] = [];
    const askedMs = this.#limitCheck?.askedMs;
    if (askedMs !== undefined) {
      children.push({ kind: "globalCall", name: "rate limit service", ageMs: nowMs - askedMs, children: [] });
    }
    const callSinceMs = this.#forwarding?.callSinceMs;
    if (callSinceMs !== undefined) {
      const detail = { backend: backend ?? "", call: attempts };
      children.push({ kind: "upstreamCall", name: endpoint ?? "", ageMs: nowMs - callSinceMs, detail, children: [] });
    }
    const name = `${redactText(method)} ${redactText(path.split("?", 1)[0] ?? "")}`;
    const detail = { requestId, ...(route !== undefined && { route }), ...(status !== 0 && { status }) };
    return { kind: "request", name, ageMs: nowMs - this.#startMs, detail, children };
  }

  /**
   * @param match where the request belongs; absent when no rule matches.
   * @param listener whose host it asked for, if any.
   */
  serve(match: RouteMatch<CompiledRule> | undefined, listener: Listener | undefined): void {
    this.#record.listener = listener?.key;
    if (this.#services.tracer.isWatching) this.#beginTrace(match, listener);
    try {
      this.#route(match);
    } catch (error) {
      this.fault(error);
    }
  }

  /** Responds without any rule. */
  reject(reply: LocalReply, listener: Listener | undefined): void {
    this.#record.listener = listener?.key;
    if (this.#services.tracer.isWatching) this.#beginTrace(undefined, listener);
    this.#sendLocalReply(reply);
  }

  #beginTrace(match: RouteMatch<CompiledRule> | undefined, listener: Listener | undefined): void {
    const { tracer } = this.#services;
    this.#record.route = match?.compiled.route;
    const trace = tracer.claim(this.#record, () => this.#viewOf(match?.compiled), this.#startMs);
    if (trace === undefined) return;
    this.#trace = trace;
    if (trace.log !== undefined) this.#downstream = new LoggedDownstream(this.#downstream, trace.log.server);
    trace.emit(requestStarted(this.#record, this.#downstream.head, tracer.worker), "info", this.#startMs);
    const others =
      listener === undefined
        ? { rules: [], more: 0 }
        : passedOver(listener, this.#downstream.head, match?.compiled.rule, this.#services.pathRules, maxPassedOver);
    const severity = match === undefined ? "error" : "success";
    trace.emit(routeSelection(match, listener, others), severity, this.#startMs);
    if (match !== undefined) trace.emit(policySelection(match.compiled));
  }

  /** Something failed inside the proxy: the request ends, and nothing else. Never throws. */
  fault(error: unknown): void {
    this.#services.faulted(error, this.#record);
    if (this.#isClosed) return;
    try {
      this.#abort(internalError);
    } catch (failure) {
      // A header that cannot be written made the response fail, and would be part of this one too.
      this.#services.faulted(failure, this.#record);
      this.#downstream.reset();
    }
  }

  #abort(reply: LocalReply): void {
    if (this.#forwarding === undefined) this.#sendLocalReply(reply);
    else this.#forwarding.abort(reply);
  }

  get client(): string {
    return networkOf(this.#clientAddress(), this.#services.ipv6PrefixLength);
  }

  #clientAddress(): string {
    const { head, connection } = this.#downstream;
    return clientAddress(head.rawHeaders, connection.sourceAddress, this.#services.trustedHops);
  }

  get delaysOthers(): boolean {
    const takesMemory = this.#body?.isHeld === true && this.#services.bodies.isTight;
    return takesMemory || this.#forwarding?.delaysOthers === true;
  }

  progress(): number | undefined {
    if (this.#isClosed) return undefined;
    const { status, requestBytes, responseBytes } = this.#record;
    const { unreadBytes } = this.#downstream;
    // A response may start before the end of the request. It may take any time unless others wait.
    const waitsForUpload = this.#body?.waitsFor !== undefined && (status === 0 || this.delaysOthers);
    return waitsForUpload || unreadBytes > 0 ? requestBytes + responseBytes - unreadBytes : undefined;
  }

  get memoryBytes(): number {
    const { path, rawHeaders } = this.#downstream.head;
    return (this.#memoryBytes ??= memoryInProgress(path, rawHeaders));
  }

  endForMemory(): void {
    if (this.#isClosed) return;
    this.connection.ended.count(this.#services.clock.monotonicMs());
    this.#endWithReply(headMemoryFull);
  }

  onBodyRejected(status: 400 | 431, message: string): void {
    if (!this.#isClosed) this.#endWithReply(status === 431 ? trailersTooLarge : malformedBody(message));
  }

  /** Ends the request at any time, with `reply` unless a response has started. Never throws. */
  #endWithReply(reply: LocalReply): void {
    try {
      if (this.#record.status === 0) {
        this.#limitCheck?.abandon();
        this.#abort(reply);
      } else {
        // The client does not get the response that set another reason.
        this.#record.reason = reply.reason;
        this.#downstream.reset();
      }
    } catch (error) {
      this.fault(error);
    }
  }

  endStalled(): void {
    if (this.#isClosed) return;
    try {
      this.#endStalled();
    } catch (error) {
      this.fault(error);
    }
  }

  #endStalled(): void {
    if (this.#record.status === 0) {
      this.#abort(this.#body?.waitsFor === "call" ? upstreamTimeout : uploadStalled);
      return;
    }
    this.#record.reason ??= "StreamIdleTimeout";
    this.#downstream.reset();
  }

  #route(match: RouteMatch<CompiledRule> | undefined): void {
    if (match === undefined) {
      this.#sendLocalReply(routeNotFound);
      return;
    }
    const rule = match.compiled;
    this.#rule = rule;
    this.#record.route = rule.route;
    this.#record.rule = rule.rule;
    const { path } = this.#downstream.head;
    if (match.isQueryAmbiguous || hasConflictingParameter(path, rule.queryNames)) {
      this.#sendLocalReply(conflictingParameter);
      return;
    }
    if (this.#respondsToPreflight(rule)) return;
    if (rule.isClosed) {
      this.#sendLocalReply(policyRejected);
      return;
    }
    if (rule.limits.isEmpty && rule.globalLimits === undefined) this.#direct(rule, match.match);
    else this.#limit(rule, match.match);
  }

  onDrain(): void {
    try {
      this.#forwarding?.resume();
    } catch (error) {
      this.fault(error);
    }
  }

  onClose(completed: boolean): void {
    this.#isClosed = true;
    try {
      this.#close(completed);
    } catch (error) {
      this.#services.live.delete(this);
      this.#body?.release();
      this.fault(error);
    }
  }

  #close(completed: boolean): void {
    // A response may still be read for its usage, which is not part of the client's duration.
    this.#record.durationMs = this.#services.clock.monotonicMs() - this.#startMs;
    this.#limitCheck?.abandon();
    if (!completed) this.#record.reason ??= "ClientDisconnect";
    if (this.#forwarding === undefined) this.#finish();
    else this.#forwarding.close(() => this.#finish());
  }

  /** Before the limits, since browsers send preflight requests by themselves, and a denial would break the site. */
  #respondsToPreflight({ cors }: CompiledRule): boolean {
    const { method, rawHeaders } = this.#downstream.head;
    const preflight = cors === undefined ? undefined : readPreflight(method, rawHeaders);
    if (cors === undefined || preflight === undefined) return false;
    const headers = preflightHeaders(cors, preflight);
    if (headers === undefined) this.#sendLocalReply(originNotAllowed);
    else this.#respond(204, headers, "");
    return true;
  }

  #limit(rule: CompiledRule, match: Match): void {
    // A limit about the model is about the one that the backend is asked for, so the backend comes first.
    const target = rule.globalLimits?.needsBody === true && rule.redirect === undefined ? rule.pick() : undefined;
    const check = new LimitCheck({
      clock: this.#services.clock,
      record: this.#record,
      trace: this.#trace,
      prescribedModel: target?.kind === "backend" ? target.ai?.model : undefined,
      takeBody: () => this.#takeBody(),
      guarded: (action) => this.#guarded(action),
    });
    this.#limitCheck = check;
    check.run(rule, this.#viewOf(rule), (result) => {
      if (result.kind === "allowed") this.#direct(rule, match, target);
      else this.#deny(result);
    });
  }

  /** Responds if a limit denies the request. */
  #deny(result: Exclude<LimitCheckResult, { kind: "allowed" }>): void {
    if (result.denial !== undefined) this.#services.denied(this.#record, result.denial);
    if (result.kind === "unavailable") {
      // The service was to decide, so the local limits get their units back.
      if (result.denial !== undefined) this.#limitCheck?.reservation?.refund();
      this.#sendLocalReply(result.reply);
      return;
    }
    this.#record.reason = "RateLimited";
    this.#respondWithCors(429, result.headers, result.body);
  }

  /** What happens later than `serve` fails as well as what happens within it. */
  #guarded<Value>(action: (value: Value) => void): (value: Value) => void {
    return (value) => {
      try {
        action(value);
      } catch (error) {
        this.fault(error);
      }
    };
  }

  /** @param rule absent where none matches. */
  #viewOf(rule: CompiledRule | undefined): RequestView {
    const { method, path, authority, scheme, rawHeaders } = this.#downstream.head;
    return {
      method,
      path,
      authority,
      scheme,
      rawHeaders,
      sourceAddress: this.#clientAddress(),
      ipv6PrefixLength: this.#services.ipv6PrefixLength,
      route: rule?.route ?? "",
      gateway: rule?.gateway ?? "",
      work: new RequestWork(),
    };
  }

  /** @param picked whose turn it is; absent where that has not been asked yet. */
  #direct(rule: CompiledRule, match: Match, picked?: CompiledTarget): void {
    if (rule.redirect !== undefined) {
      this.#redirect(rule, rule.redirect, match);
      return;
    }
    const target = picked ?? rule.pick();
    if (target === undefined || target.kind === "invalid") this.#sendLocalReply(invalidBackend);
    else if (target.kind === "redirect") this.#redirect(rule, target, match);
    else this.#forward(rule, target, match);
  }

  #redirect(rule: CompiledRule, target: RedirectTarget, match: Match): void {
    const { scheme, authority, path } = this.#downstream.head;
    const { listenerPort } = this.#services;
    const headers = ["location", redirectLocation(target.redirect, { scheme, authority, path, match, listenerPort })];
    this.#limitCheck?.reservation?.setHeaders(headers);
    this.#responseEditor(rule, target)?.(headers);
    this.#respond(target.redirect.statusCode, headers, "");
  }

  #forward(rule: CompiledRule, target: BackendTarget, match: Match): void {
    this.#record.backend = target.backend.backend.key;
    const loop = loopField(this.#downstream.head.rawHeaders);
    if (isLoop(loop, rule.loopName)) {
      this.#sendLocalReply(loopDetected);
      return;
    }
    if (rule.mirrors && isMirrored(loop, rule.loopName)) {
      this.#sendLocalReply(mirrorLoopDetected);
      return;
    }
    if (target.backend.pools.length === 0) {
      this.#sendLocalReply(noReadyEndpoint);
      return;
    }
    const { clock, random, abandonedResponses } = this.#services;
    const countsTokens = rule.limits.countsTokens || rule.globalLimits?.countsTokens === true;
    const forwarding = new Forwarding({
      clock,
      random,
      downstream: this.#downstream,
      client: this.client,
      record: this.#record,
      trace: this.#trace,
      startMs: this.#startMs,
      target,
      timeouts: rule.timeouts,
      retry: rule.retry,
      admission: this.#limitCheck?.reservation,
      editResponse: this.#responseEditor(rule, target),
      readsUsage: target.ai !== undefined || countsTokens,
      reportsCharge: rule.limits.countsTokens,
      abandonedResponses: countsTokens ? abandonedResponses : undefined,
      reply: (reply) => this.#sendLocalReply(reply),
      fault: (error) => this.fault(error),
    });
    this.#forwarding = forwarding;
    const request = this.#outgoingRequest(target, match, withPass(loop, rule.loopName, rule.mirrors));
    mirrorRequest(this.#services, target.mirrors, request);
    if (target.ai !== undefined || countsTokens) {
      const send = this.#guarded<ProviderRequest>((prepared) => {
        if (prepared.kind === "ready") forwarding.send(prepared.request, prepared.usageEdit);
        else forwarding.reject(prepared.reply);
      });
      request.body?.countTokenIds();
      const usageChunk = rule.usageChunk ?? target.ai?.usageChunk ?? defaultUsageChunk;
      prepareProviderRequest({ ai: target.ai, countsTokens, usageChunk }, request, send);
    } else if (request.body === undefined) {
      forwarding.send(request, undefined);
    } else {
      const send = this.#guarded<boolean>((isReady) => {
        if (isReady) forwarding.send(request, undefined);
        else forwarding.reject(bodyMemoryFull);
      });
      request.body.whenReady(request.headers, send);
    }
  }

  /** What the filters make of the request. */
  #outgoingRequest({ filters, authority }: BackendTarget, match: Match, loop: string) {
    const { head, connection, upgrade } = this.#downstream;
    const headers = forwardRequestHeaders(head.rawHeaders, {
      host: filters.hostname ?? authority ?? head.authority,
      authority: head.authority,
      scheme: head.scheme,
      sourceAddress: connection.sourceAddress,
      requestId: this.#record.requestId,
    });
    this.#limitCheck?.reservation?.setBackendHeaders(headers);
    filters.editRequest?.(headers);
    headers.push("cdn-loop", loop);
    const path = filters.path === undefined ? head.path : rewritePath(filters.path, match, head.path);
    return { method: head.method, path, headers, body: this.#takeBody(), upgrade } satisfies OutgoingRequest;
  }

  /** Called only when the body is needed, since it sends `100 Continue`, which a denied client must not get. */
  #takeBody(): RequestBody | undefined {
    if (this.#body !== undefined) return this.#body;
    const { body } = this.#downstream;
    if (body === undefined) return undefined;
    const share = this.#services.bodies.openShare(this.client);
    this.#body = new RequestBody({ body, record: this.#record, share, owner: this });
    if (this.#rule?.retry !== undefined) this.#body.keepUpTo(largeBodyBytes);
    return this.#body;
  }

  /** CORS first: what a ResponseHeaderModifier says is said with more intent. */
  #responseEditor({ cors }: CompiledRule, { filters }: BackendTarget | RedirectTarget): HeaderEditor | undefined {
    if (cors === undefined) return filters.editResponse;
    return (headers) => {
      setCorsHeaders(cors, this.#downstream.head.rawHeaders, headers);
      filters.editResponse?.(headers);
    };
  }

  #sendLocalReply(reply: LocalReply): void {
    this.#record.reason = reply.reason;
    const reservation = this.#limitCheck?.reservation;
    const refund = this.#forwarding === undefined ? reply.refund : this.#forwarding.refundCause(reply);
    if (refund !== undefined) reservation?.refund(refund);
    const headers = ["content-type", "text/plain"];
    reservation?.setHeaders(headers);
    if (reply.retryAfter !== undefined) headers.push("retry-after", String(reply.retryAfter));
    if (reply.acceptEncoding !== undefined) headers.push("accept-encoding", reply.acceptEncoding);
    this.#respondWithCors(reply.status, headers, reply.body);
  }

  /** Adds CORS headers to local replies. Otherwise a browser hides them from scripts. */
  #respondWithCors(status: number, headers: string[], body: Buffer | string): void {
    const cors = this.#rule?.cors;
    if (cors !== undefined) setCorsHeaders(cors, this.#downstream.head.rawHeaders, headers);
    this.#respond(status, headers, body);
  }

  #respond(status: number, headers: string[], body: Buffer | string): void {
    this.#record.status = status;
    this.#record.responseBytes = body.length;
    headers.push("x-request-id", this.#record.requestId);
    this.#downstream.respond(status, headers, body);
  }

  #finish(): void {
    this.#services.live.delete(this);
    this.#body?.release();
    if (this.#trace !== undefined) endTrace(this.#trace, this.#record);
    this.#services.finished(this.#record);
  }
}

function endTrace(trace: RequestTrace, record: RequestRecord): void {
  const usage = llmUsage(record);
  if (usage !== undefined) trace.emit(usage);
  trace.emit(requestFinished(record), severityOfStatus(record.status, record.reason));
  trace.end();
}
