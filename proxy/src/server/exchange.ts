/**
 * One request from its head to its last byte: route, preflight, limits, target, filters; the calls to the backend and
 * its answer are `forwarding.ts`'s. Each step either goes on or answers; the record of what happened is handed over
 * once, when the client has everything or has gone.
 */
import type { Clock } from "@gatewayproxy/runtime/clock";
import { preflightHeaders, readPreflight, setCorsHeaders } from "../filters/cors.ts";
import { forwardRequestHeaders, requestIdOf } from "../filters/forwarded.ts";
import type { HeaderEditor } from "../filters/header-edits.ts";
import { isName } from "../filters/hop-by-hop.ts";
import { redirectLocation } from "../filters/redirect.ts";
import { rewritePath } from "../filters/url-rewrite.ts";
import type { Match } from "../ir/match.ts";
import { deniedResponse } from "../policy/ratelimit/denied-response.ts";
import type { Allowed } from "../policy/ratelimit/local-limiter.ts";
import type { RouteMatch } from "../routing/compile-routes.ts";
import type { RequestRecord } from "../telemetry/request-record.ts";
import type { BackendTarget, CompiledRule, RedirectTarget } from "./compiled-rule.ts";
import type { Downstream, DownstreamEvents } from "./downstream.ts";
import { Forwarding } from "./forwarding.ts";
import { setLimitHeaders } from "./limit-headers.ts";
import { type MirrorServices, mirrorRequest } from "./mirror.ts";
import {
  internalFault,
  invalidBackend,
  noReadyEndpoint,
  originNotAllowed,
  type OwnAnswer,
  routeNotFound,
} from "./own-answers.ts";
import { type OutgoingRequest, prepareProviderRequest } from "./provider-request.ts";
import { largeBodyBytes, RequestBody } from "./request-body.ts";

/** What all exchanges of a worker share. */
export interface ExchangeServices extends MirrorServices {
  readonly clock: Clock;
  /** 0 ≤ random() < 1 */
  readonly random: () => number;
  readonly createRequestId: () => string;
  /** Called once per exchange, first. */
  readonly started: () => void;
  /** Takes the record over; called once per exchange, last. */
  readonly finished: (record: RequestRecord) => void;
  /** A fault of ours, for the log. */
  readonly faulted: (error: unknown, record: RequestRecord) => void;
}

export class Exchange implements DownstreamEvents {
  readonly #services: ExchangeServices;
  readonly #downstream: Downstream;
  readonly #record: RequestRecord;
  readonly #startMs: number;
  #rule: CompiledRule | undefined;
  #admission: Allowed | undefined;
  #forwarding: Forwarding | undefined;

  constructor(services: ExchangeServices, downstream: Downstream) {
    this.#services = services;
    this.#downstream = downstream;
    this.#startMs = services.clock.monotonicMs();
    this.#record = newRecord(services, downstream);
    services.started();
  }

  /**
   * @param match where the request belongs; absent when no rule matches.
   * @param listener key of the listener whose host it asked for, if any.
   */
  serve(match: RouteMatch<CompiledRule> | undefined, listener: string | undefined): void {
    this.#record.listener = listener;
    try {
      this.#route(match);
    } catch (error) {
      this.#services.faulted(error, this.#record);
      this.#forwarding?.stop();
      this.#answer(internalFault);
    }
  }

  /** Answers in the place of any rule. */
  refuse(answer: OwnAnswer, listener: string | undefined): void {
    this.#record.listener = listener;
    this.#answer(answer);
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
    if (this.#admit(rule)) this.#direct(rule, match.match);
  }

  onDrain(): void {
    this.#forwarding?.resume();
  }

  onClose(completed: boolean): void {
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

  /** @returns whether the request may go on; otherwise it has been answered. */
  #admit(rule: CompiledRule): boolean {
    if (rule.limits.isEmpty) return true;
    const { head, connection } = this.#downstream;
    const admission = rule.limits.admit(
      {
        method: head.method,
        path: head.path,
        authority: head.authority,
        scheme: head.scheme,
        rawHeaders: head.rawHeaders,
        sourceAddress: connection.sourceAddress,
        route: rule.route,
        gateway: rule.gateway,
      },
      this.#services.clock.monotonicMs(),
    );
    this.#record.decisions = admission.decisions;
    if (admission.kind === "allowed") {
      this.#admission = admission;
      return true;
    }
    const { status, rawHeaders, body } = deniedResponse(admission);
    this.#record.reason = "RateLimited";
    this.#respondWithCors(status, [...rawHeaders], body);
    return false;
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
    if (this.#admission !== undefined) setLimitHeaders(headers, this.#admission);
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
      startMs: this.#startMs,
      target,
      timeouts: rule.timeouts,
      retry: rule.retry,
      admission: this.#admission,
      editResponse: this.#responseEditor(rule, target),
      readsUsage: target.ai !== undefined || rule.limits.countsTokens,
      answer: (answer) => this.#answer(answer),
    });
    this.#forwarding = forwarding;
    const request = this.#outgoingRequest(rule, target, match);
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
  #outgoingRequest({ retry }: CompiledRule, { filters, authority }: BackendTarget, match: Match) {
    const { head, connection, upgrade, body: stream } = this.#downstream;
    const headers = forwardRequestHeaders(head.rawHeaders, {
      host: filters.hostname ?? authority ?? head.authority,
      authority: head.authority,
      scheme: head.scheme,
      sourceAddress: connection.sourceAddress,
      requestId: this.#record.requestId,
    });
    filters.editRequest?.(headers);
    const path = filters.path === undefined ? head.path : rewritePath(filters.path, match, head.path);
    const body = stream === undefined ? undefined : new RequestBody({ stream, record: this.#record });
    if (retry !== undefined) body?.keepUpTo(largeBodyBytes);
    return { method: head.method, path, headers, body, upgrade } satisfies OutgoingRequest;
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
    this.#admission?.lease.refund(this.#services.clock.monotonicMs());
    const headers = ["content-type", "text/plain"];
    if (this.#admission !== undefined) setLimitHeaders(headers, this.#admission);
    this.#respondWithCors(answer.status, headers, answer.body);
  }

  /** A script that may read the backend's answers may read ours too; without this a browser tells it nothing at all. */
  #respondWithCors(status: number, headers: string[], body: string): void {
    const cors = this.#rule?.cors;
    if (cors !== undefined) setCorsHeaders(cors, this.#downstream.head.rawHeaders, headers);
    this.#respond(status, headers, body);
  }

  #respond(status: number, headers: string[], body: string): void {
    this.#record.status = status;
    this.#record.responseBytes = body.length;
    headers.push("x-request-id", this.#record.requestId);
    this.#downstream.respond(status, headers, body);
  }

  #finish(): void {
    this.#record.durationMs = this.#services.clock.monotonicMs() - this.#startMs;
    this.#services.finished(this.#record);
  }
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
