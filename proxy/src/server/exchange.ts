/**
 * One request from its head to its last byte: route, preflight, limits, target, filters; the calls to the backend and
 * its answer are `forwarding.ts`'s. Each step either goes on or answers; the record of what happened is handed over
 * once, when the client has everything or has gone.
 */
import type { Task } from "@gatewayproxy/admin-api/tasks";
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { RequestView } from "../cel/request-view.ts";
import { preflightHeaders, readPreflight, setCorsHeaders } from "../filters/cors.ts";
import { forwardRequestHeaders, requestIdOf } from "../filters/forwarded.ts";
import type { HeaderEditor } from "../filters/header-edits.ts";
import { clientAddress } from "../filters/client-address.ts";
import { isName } from "../filters/hop-by-hop.ts";
import { redirectLocation } from "../filters/redirect.ts";
import { rewritePath } from "../filters/url-rewrite.ts";
import type { Match } from "../ir/match.ts";
import type { Listener } from "../ir/snapshot.ts";
import { maxAiRequestBytes } from "../llm/ai-request.ts";
import { type LlmRequest, readLlmRequest } from "../llm/llm-request.ts";
import type { Denial } from "../policy/ratelimit/denial.ts";
import { deniedResponse } from "../policy/ratelimit/denied-response.ts";
import type { GlobalAdmission, GlobalLimitSet, GlobalPass } from "../policy/ratelimit/global/global-limiter.ts";
import type { Admission } from "../policy/ratelimit/local-limiter.ts";
import type { RouteMatch } from "../routing/compile-routes.ts";
import type { RequestRecord } from "../telemetry/request-record.ts";
import type { RequestTrace } from "../telemetry/trace/request-trace.ts";
import type { Tracer } from "../telemetry/trace/tracer.ts";
import type { BackendTarget, CompiledRule, RedirectTarget } from "./compiled-rule.ts";
import { Admitted } from "./admission.ts";
import type { Connection } from "./connection.ts";
import type { Downstream, DownstreamEvents } from "./downstream.ts";
import { Forwarding } from "./forwarding.ts";
import type { Linked, LinkedSet } from "./linked-set.ts";
import { type MirrorServices, mirrorRequest } from "./mirror.ts";
import {
  bodyTooLarge,
  internalFault,
  invalidBackend,
  limitUndecided,
  noReadyEndpoint,
  originNotAllowed,
  type OwnAnswer,
  routeNotFound,
} from "./own-answers.ts";
import { type OutgoingRequest, prepareProviderRequest } from "./provider-request.ts";
import { largeBodyBytes, RequestBody } from "./request-body.ts";
import {
  globalPolicy,
  llmUsage,
  localPolicy,
  policySelection,
  requestFinished,
  requestStarted,
  routeSelection,
  severityOf,
  severityOfStatus,
} from "./trace-messages.ts";

/** What all exchanges of a worker share. */
export interface ExchangeServices extends MirrorServices {
  readonly clock: Clock;
  /** 0 ≤ random() < 1 */
  readonly random: () => number;
  /** Proxies in front whose word about the client's address is taken. */
  readonly trustedHops: number;
  readonly createRequestId: () => string;
  /** All exchanges that have begun and not ended. */
  readonly live: LinkedSet<Exchange>;
  /** Who waits for a request to watch. */
  readonly tracer: Tracer;
  /** A limit refused the request; called before the answer. */
  readonly denied: (record: RequestRecord, denial: Denial) => void;
  /** Called once per exchange, first. */
  readonly started: () => void;
  /** Takes the record over; called once per exchange, last. */
  readonly finished: (record: RequestRecord) => void;
  /** A fault of ours, for the log. */
  readonly faulted: (error: unknown, record: RequestRecord) => void;
}

export class Exchange implements DownstreamEvents, Linked<Exchange> {
  before: Exchange | undefined;
  after: Exchange | undefined;
  readonly #services: ExchangeServices;
  readonly #downstream: Downstream;
  readonly #record: RequestRecord;
  readonly #startMs: number;
  #rule: CompiledRule | undefined;
  #body: RequestBody | undefined;
  #admission: Admitted | undefined;
  #globalPass: GlobalPass | undefined;
  /** While global limits decide: since when; monotonic. */
  #askedMs: number | undefined;
  /** Of a request that someone watches. */
  #trace: RequestTrace | undefined;
  /** The client has what it gets, or has gone. */
  #isClosed = false;
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

  /** What it is and what it waits for, for operators. @param nowMs monotonic */
  describe(nowMs: number): Task {
    const { requestId, method, path, route, backend, endpoint, status, calls } = this.#record;
    const children: Task[] = [];
    if (this.#askedMs !== undefined) {
      children.push({ kind: "globalCall", name: "rate limit service", ageMs: nowMs - this.#askedMs, children: [] });
    }
    const callSinceMs = this.#forwarding?.callSinceMs;
    if (callSinceMs !== undefined) {
      const detail = { backend: backend ?? "", call: calls };
      children.push({ kind: "upstreamCall", name: endpoint ?? "", ageMs: nowMs - callSinceMs, detail, children: [] });
    }
    const name = `${method} ${path.split("?", 1)[0] ?? ""}`;
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
      this.#fault(error);
    }
  }

  /** Answers in the place of any rule. */
  refuse(answer: OwnAnswer, listener: Listener | undefined): void {
    this.#record.listener = listener?.key;
    if (this.#services.tracer.isWatching) this.#beginTrace(undefined, listener);
    this.#answer(answer);
  }

  #beginTrace(match: RouteMatch<CompiledRule> | undefined, listener: Listener | undefined): void {
    const { tracer } = this.#services;
    const trace = tracer.claim(this.#viewOf(match?.compiled), this.#startMs);
    if (trace === undefined) return;
    this.#trace = trace;
    trace.emit(requestStarted(this.#record, this.#downstream.head, tracer.worker), "info", this.#startMs);
    trace.emit(routeSelection(match, listener), match === undefined ? "error" : "success", this.#startMs);
    if (match !== undefined) trace.emit(policySelection(match.compiled));
  }

  #fault(error: unknown): void {
    this.#services.faulted(error, this.#record);
    if (this.#isClosed) return;
    this.#forwarding?.stop();
    this.#answer(internalFault);
  }

  #route(match: RouteMatch<CompiledRule> | undefined): void {
    if (match === undefined) {
      this.#answer(routeNotFound);
      return;
    }
    const rule = match.compiled;
    this.#rule = rule;
    this.#record.route = rule.route;
    this.#record.rule = rule.rule;
    if (this.#answersPreflight(rule)) return;
    if (rule.limits.isEmpty && rule.globalLimits === undefined) this.#direct(rule, match.match);
    else this.#limit(rule, match.match);
  }

  onDrain(): void {
    this.#forwarding?.resume();
  }

  onClose(completed: boolean): void {
    this.#isClosed = true;
    if (!completed) this.#record.reason ??= "ClientDisconnect";
    if (this.#forwarding === undefined) this.#finish();
    else this.#forwarding.close(() => this.#finish());
  }

  /** Before the limits: a browser asks on its own, and a refusal would show as a failure of the site. */
  #answersPreflight({ cors }: CompiledRule): boolean {
    const { method, rawHeaders } = this.#downstream.head;
    const preflight = cors === undefined ? undefined : readPreflight(method, rawHeaders);
    if (cors === undefined || preflight === undefined) return false;
    const headers = preflightHeaders(cors, preflight);
    if (headers === undefined) this.#answer(originNotAllowed);
    else this.#respond(204, headers, "");
    return true;
  }

  /** Asks the limits, the local ones first: they cost nothing and give back what a global one refuses. */
  #limit(rule: CompiledRule, match: Match): void {
    const { clock } = this.#services;
    const view = this.#viewOf(rule);
    const local = rule.limits.isEmpty ? undefined : rule.limits.admit(view, clock.monotonicMs());
    if (local !== undefined) this.#record.decisions = local.decisions;
    if (this.#trace !== undefined && local !== undefined) traceLocal(this.#trace, rule, view, local);
    if (local?.kind === "denied") {
      this.#services.denied(this.#record, { kind: "local", denied: local });
      const { status, rawHeaders, body } = deniedResponse(local);
      this.#record.reason = "RateLimited";
      this.#respondWithCors(status, [...rawHeaders], body);
      return;
    }
    this.#admission = new Admitted(clock, local, undefined);
    if (rule.globalLimits === undefined) {
      this.#direct(rule, match);
      return;
    }
    const askedMs = clock.monotonicMs();
    this.#askedMs = askedMs;
    this.#askGlobal(rule.globalLimits, view, (admission) => {
      this.#askedMs = undefined;
      if (this.#trace !== undefined) traceGlobal(this.#trace, admission, askedMs);
      if (this.#isClosed || !this.#passes(admission)) return;
      this.#globalPass = admission.pass;
      this.#admission = new Admitted(clock, local, admission.pass);
      this.#direct(rule, match);
    });
  }

  /** Reads the body first where a limit is about what it asks for. */
  #askGlobal(limits: GlobalLimitSet, view: RequestView, done: (admission: GlobalAdmission) => void): void {
    if (!limits.needsBody) {
      limits.admit(view, this.#guarded(done));
      return;
    }
    const admit = this.#guarded((llm: LlmRequest) => limits.admit({ ...view, llm }, this.#guarded(done)));
    const body = this.#takeBody();
    if (body === undefined) {
      admit({});
      return;
    }
    body.keepUpTo(maxAiRequestBytes);
    body.collect((whole) => {
      // What cannot be read must not get past the limit.
      if (whole === undefined) this.#answer(bodyTooLarge);
      else admit(readLlmRequest(whole));
    });
  }

  /** Answers where a global limit lets the request go no further. */
  #passes(admission: GlobalAdmission): admission is Extract<GlobalAdmission, { kind: "allowed" }> {
    this.#record.globalDecisions = admission.decisions;
    if (admission.kind === "allowed") return true;
    const { limit } = admission;
    if (admission.kind === "undecided") {
      this.#services.denied(this.#record, { kind: "global", limit, refused: undefined });
      this.#answer(limitUndecided);
      return false;
    }
    this.#services.denied(this.#record, { kind: "global", limit, refused: admission.refused });
    this.#record.reason = "RateLimited";
    this.#admission?.refund();
    this.#respondWithCors(429, [...admission.headers], admission.body);
    return false;
  }

  /** What happens later than `serve` fails as well as what happens within it. */
  #guarded<Value>(action: (value: Value) => void): (value: Value) => void {
    return (value) => {
      try {
        action(value);
      } catch (error) {
        this.#fault(error);
      }
    };
  }

  /** @param rule absent where none matches. */
  #viewOf(rule: CompiledRule | undefined): RequestView {
    const { head, connection } = this.#downstream;
    const { method, path, authority, scheme, rawHeaders } = head;
    return {
      method,
      path,
      authority,
      scheme,
      rawHeaders,
      sourceAddress: clientAddress(rawHeaders, connection.sourceAddress, this.#services.trustedHops),
      route: rule?.route ?? "",
      gateway: rule?.gateway ?? "",
    };
  }

  /** Finds whose turn it is. */
  #direct(rule: CompiledRule, match: Match): void {
    if (rule.redirect !== undefined) {
      this.#redirect(rule, rule.redirect, match);
      return;
    }
    const target = rule.pick();
    if (target === undefined || target.kind === "invalid") this.#answer(invalidBackend);
    else if (target.kind === "redirect") this.#redirect(rule, target, match);
    else this.#forward(rule, target, match);
  }

  #redirect(rule: CompiledRule, { redirect, filters }: RedirectTarget, match: Match): void {
    const { scheme, authority, path } = this.#downstream.head;
    const { listenerPort } = rule;
    const headers = ["location", redirectLocation(redirect, { scheme, authority, path, match, listenerPort })];
    this.#admission?.setHeaders(headers);
    filters.editResponse?.(headers);
    this.#respondWithCors(redirect.statusCode, headers, "");
  }

  #forward(rule: CompiledRule, target: BackendTarget, match: Match): void {
    this.#record.backend = target.backend.backend.key;
    if (target.backend.pools.length === 0) {
      this.#answer(noReadyEndpoint);
      return;
    }
    const { clock, random } = this.#services;
    const forwarding = new Forwarding({
      clock,
      random,
      downstream: this.#downstream,
      record: this.#record,
      trace: this.#trace,
      startMs: this.#startMs,
      target,
      timeouts: rule.timeouts,
      retry: rule.retry,
      admission: this.#admission,
      editResponse: this.#responseEditor(rule, target),
      readsUsage: target.ai !== undefined || rule.limits.countsTokens || rule.globalLimits?.countsTokens === true,
      answer: (answer) => this.#answer(answer),
    });
    this.#forwarding = forwarding;
    const request = this.#outgoingRequest(target, match);
    mirrorRequest(this.#services, target.mirrors, request);
    if (target.ai !== undefined) {
      prepareProviderRequest(target.ai, request, (prepared) => {
        if (prepared.kind === "ready") forwarding.send(prepared.request, prepared.asksUsage);
        else forwarding.refuse(prepared.answer);
      });
    } else if (request.body === undefined) forwarding.send(request, false);
    else request.body.whenReady(request.headers, () => forwarding.send(request, false));
  }

  /** What the filters make of the request. */
  #outgoingRequest({ filters, authority }: BackendTarget, match: Match) {
    const { head, connection, upgrade } = this.#downstream;
    const headers = forwardRequestHeaders(head.rawHeaders, {
      host: filters.hostname ?? authority ?? head.authority,
      authority: head.authority,
      scheme: head.scheme,
      sourceAddress: connection.sourceAddress,
      requestId: this.#record.requestId,
    });
    this.#globalPass?.addBackendHeaders(headers);
    filters.editRequest?.(headers);
    const path = filters.path === undefined ? head.path : rewritePath(filters.path, match, head.path);
    return { method: head.method, path, headers, body: this.#takeBody(), upgrade } satisfies OutgoingRequest;
  }

  /** Not before it is needed: a client that awaits `100 Continue` is told to go on by this, and not if it is refused. */
  #takeBody(): RequestBody | undefined {
    if (this.#body !== undefined) return this.#body;
    const { body: stream } = this.#downstream;
    if (stream === undefined) return undefined;
    this.#body = new RequestBody({ stream, record: this.#record });
    if (this.#rule?.retry !== undefined) this.#body.keepUpTo(largeBodyBytes);
    return this.#body;
  }

  /** CORS first: what a ResponseHeaderModifier says is said with more intent. */
  #responseEditor({ cors }: CompiledRule, { filters }: BackendTarget): HeaderEditor | undefined {
    if (cors === undefined) return filters.editResponse;
    return (headers) => {
      setCorsHeaders(cors, this.#downstream.head.rawHeaders, headers);
      filters.editResponse?.(headers);
    };
  }

  #answer(answer: OwnAnswer): void {
    this.#record.reason = answer.reason;
    this.#admission?.refund();
    const headers = ["content-type", "text/plain"];
    this.#admission?.setHeaders(headers);
    this.#respondWithCors(answer.status, headers, answer.body);
  }

  /** A script that may read the backend's answers may read ours too; without this a browser tells it nothing at all. */
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
    this.#record.durationMs = this.#services.clock.monotonicMs() - this.#startMs;
    this.#services.live.delete(this);
    if (this.#trace !== undefined) endTrace(this.#trace, this.#record);
    this.#services.finished(this.#record);
  }
}

function traceLocal(trace: RequestTrace, rule: CompiledRule, view: RequestView, { kind }: Admission): void {
  for (const figures of rule.limits.figures(view)) {
    trace.emit(localPolicy(figures, kind === "allowed"), figures.admits ? "success" : "warn");
  }
}

function traceGlobal(trace: RequestTrace, { decisions }: GlobalAdmission, askedMs: number): void {
  for (const decision of decisions) trace.emit(globalPolicy(decision), severityOf(decision.outcome), askedMs);
}

function endTrace(trace: RequestTrace, record: RequestRecord): void {
  const usage = llmUsage(record);
  if (usage !== undefined) trace.emit(usage);
  trace.emit(requestFinished(record), severityOfStatus(record.status, record.reason));
  trace.end();
}

/** What is known of a request when its head has come. */
export function newRecord(
  services: ExchangeServices,
  { head, httpVersion, connection }: Pick<Downstream, "head" | "httpVersion" | "connection">,
): RequestRecord {
  return {
    requestId: requestIdOf(head.rawHeaders, services.createRequestId),
    startMs: services.clock.nowMs(),
    durationMs: 0,
    httpVersion,
    method: head.method,
    scheme: head.scheme,
    authority: head.authority,
    path: head.path,
    sourceAddress: connection.sourceAddress,
    userAgent: fieldOf(head.rawHeaders, "user-agent"),
    listener: undefined,
    route: undefined,
    rule: undefined,
    backend: undefined,
    endpoint: undefined,
    calls: 0,
    status: 0,
    reason: undefined,
    requestBytes: 0,
    responseBytes: 0,
    upstreamMs: undefined,
    usage: undefined,
    usageUnread: undefined,
    decisions: noDecisions,
    globalDecisions: noGlobalDecisions,
  };
}

/** First value of a field; `name` lower case. */
function fieldOf(rawHeaders: readonly string[], name: string): string | undefined {
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const candidate = rawHeaders[i];
    if (candidate?.length === name.length && isName(candidate, name)) return rawHeaders[i + 1];
  }
  return undefined;
}

const noDecisions: RequestRecord["decisions"] = [];
const noGlobalDecisions: RequestRecord["globalDecisions"] = [];
