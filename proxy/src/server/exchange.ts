/**
 * One request from its head to its last byte: route, limits, filters, backend, answer. Each step either goes on or
 * answers; the record of what happened is handed over once, when the client has everything or has gone.
 */
import { Readable } from "node:stream";
import type { Clock } from "@gatewayproxy/runtime/clock";
import { forwardRequestHeaders, requestIdOf } from "../filters/forwarded.ts";
import { isName } from "../filters/hop-by-hop.ts";
import { rewritePath } from "../filters/url-rewrite.ts";
import type { Match } from "../ir/match.ts";
import { deniedResponse } from "../policy/ratelimit/denied-response.ts";
import type { Allowed } from "../policy/ratelimit/local-limiter.ts";
import type { RouteMatch } from "../routing/compile-routes.ts";
import type { RequestRecord } from "../telemetry/request-record.ts";
import { pickEndpoint } from "../upstream/backends.ts";
import type { UpstreamCall, UpstreamRequest } from "../upstream/call.ts";
import type { UpstreamFailure } from "../upstream/failure.ts";
import type { BackendTarget, CompiledRule } from "./compiled-rule.ts";
import type { Downstream, DownstreamEvents } from "./downstream.ts";
import { setLimitHeaders } from "./limit-headers.ts";
import {
  failureAnswer,
  internalFault,
  invalidBackend,
  noReadyEndpoint,
  type OwnAnswer,
  routeNotFound,
} from "./own-answers.ts";
import { prepareProviderRequest } from "./provider-request.ts";
import { takeBody } from "./request-body.ts";
import { type RelayOwner, ResponseRelay } from "./response-relay.ts";

/** What all exchanges of a worker share. */
export interface ExchangeServices {
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

/** A request that could not reach one endpoint is offered to one more. */
const maxAttempts = 2;

export class Exchange implements DownstreamEvents, RelayOwner {
  readonly #services: ExchangeServices;
  readonly #downstream: Downstream;
  readonly #record: RequestRecord;
  readonly #startMs: number;
  #admission: Allowed | undefined;
  #target: BackendTarget | undefined;
  #request: UpstreamRequest | undefined;
  #asksUsage = false;
  #countsTokens = false;
  #relay: ResponseRelay | undefined;
  #call: UpstreamCall | undefined;
  #attempts = 0;
  #isClosed = false;

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
      this.#answer(internalFault);
    }
  }

  #route(match: RouteMatch<CompiledRule> | undefined): void {
    if (match === undefined) {
      this.#answer(routeNotFound);
      return;
    }
    const rule = match.compiled;
    this.#record.route = rule.route;
    this.#record.rule = rule.rule;
    if (this.#admit(rule)) this.#forward(rule, match.match);
  }

  onDrain(): void {
    this.#call?.resume();
  }

  onClose(completed: boolean): void {
    this.#isClosed = true;
    this.#call?.abort();
    if (!completed) this.#record.reason ??= "ClientDisconnect";
    if (this.#relay === undefined) this.#finish();
    else this.#relay.settle("clientLeft", () => this.#finish());
  }

  onUpstreamFailure(failure: UpstreamFailure): void {
    if (this.#isClosed) return;
    if (this.#mayTryAgain(failure)) this.#send();
    else this.#answer(failureAnswer(failure));
  }

  /** @returns whether the request may go on; otherwise it has been answered. */
  #admit(rule: CompiledRule): boolean {
    if (rule.limits.isEmpty) return true;
    this.#countsTokens = rule.limits.countsTokens;
    const { head, sourceAddress } = this.#downstream;
    const admission = rule.limits.admit(
      {
        method: head.method,
        path: head.path,
        authority: head.authority,
        scheme: head.scheme,
        rawHeaders: head.rawHeaders,
        sourceAddress,
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
    this.#respond(status, [...rawHeaders], body);
    return false;
  }

  #forward(rule: CompiledRule, match: Match): void {
    const target = rule.pick();
    if (target?.kind !== "backend") {
      this.#answer(invalidBackend);
      return;
    }
    this.#target = target;
    this.#record.backend = target.backend.backend.key;
    if (target.backend.pools.length === 0) {
      this.#answer(noReadyEndpoint);
      return;
    }
    const { head } = this.#downstream;
    const headers = forwardRequestHeaders(head.rawHeaders, {
      host: target.filters.hostname ?? target.authority ?? head.authority,
      authority: head.authority,
      scheme: head.scheme,
      sourceAddress: this.#downstream.sourceAddress,
      requestId: this.#record.requestId,
    });
    target.filters.editRequest?.(headers);
    const path = target.filters.path === undefined ? head.path : rewritePath(target.filters.path, match, head.path);
    const request = { method: head.method, path, headers, body: undefined };
    const { ai } = target;
    const { body: stream } = this.#downstream;
    const body = stream === undefined ? undefined : { stream, record: this.#record };
    if (ai === undefined) {
      if (body === undefined) this.#sendWith(request);
      else takeBody(body, headers, (taken) => this.#sendWith({ ...request, body: taken }));
      return;
    }
    prepareProviderRequest(ai, request, body, (prepared) => {
      if (prepared.kind === "refused") {
        this.#answer(prepared.answer);
        return;
      }
      this.#asksUsage = prepared.asksUsage;
      this.#sendWith(prepared.request);
    });
  }

  #sendWith(request: UpstreamRequest): void {
    this.#request = request;
    this.#send();
  }

  /** Sends to an endpoint of the target; again to another when the first could not be reached. */
  #send(): void {
    const { clock, random } = this.#services;
    const target = this.#target;
    const request = this.#request;
    const pool = target === undefined ? undefined : pickEndpoint(target.backend.pools, random);
    if (this.#isClosed || target === undefined || request === undefined || pool === undefined) return;
    this.#attempts++;
    const relay = new ResponseRelay({
      clock,
      downstream: this.#downstream,
      record: this.#record,
      admission: this.#admission,
      editResponse: target.filters.editResponse,
      readsUsage: target.ai !== undefined || this.#countsTokens,
      hidesUsage: this.#asksUsage,
      owner: this,
    });
    this.#relay = relay;
    this.#record.endpoint = pool.address;
    this.#call = pool.send(request, relay);
  }

  /** Nothing was sent, or what was sent is safe to send again (RFC 9110 §9.2.2) and no answer had begun. */
  #mayTryAgain(failure: UpstreamFailure): boolean {
    if (this.#attempts >= maxAttempts || this.#request?.body instanceof Readable) return false;
    return failure.kind === "connect" || (failure.kind === "reset" && isSafe(this.#request?.method));
  }

  #answer(answer: OwnAnswer): void {
    this.#record.reason = answer.reason;
    this.#admission?.lease.refund(this.#services.clock.monotonicMs());
    const headers = ["content-type", "text/plain"];
    if (this.#admission !== undefined) setLimitHeaders(headers, this.#admission);
    this.#respond(answer.status, headers, answer.body);
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

/** RFC 9110 §9.2.1 */
function isSafe(method: string | undefined): boolean {
  return method === "GET" || method === "HEAD" || method === "OPTIONS";
}

function newRecord(services: ExchangeServices, { head, httpVersion, sourceAddress }: Downstream): RequestRecord {
  return {
    requestId: requestIdOf(head.rawHeaders, services.createRequestId),
    startMs: services.clock.nowMs(),
    durationMs: 0,
    httpVersion,
    method: head.method,
    scheme: head.scheme,
    authority: head.authority,
    path: head.path,
    sourceAddress,
    userAgent: fieldOf(head.rawHeaders, "user-agent"),
    listener: undefined,
    route: undefined,
    rule: undefined,
    backend: undefined,
    endpoint: undefined,
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
