/**
 * One request from its head to its last byte. It runs the stages of its rule (`stages.ts`) until one of them responds
 * or forwards the request, and handles the events of its client. It passes on its record once, when the client has
 * received the whole response or has disconnected.
 */
import type { Task } from "@gatewayproxy/admin-api/tasks";
import { networkOf } from "@gatewayproxy/runtime/ip-address";
import { redactText } from "@gatewayproxy/runtime/redaction";
import type { Identities } from "../cel/identity.ts";
import type { RequestView } from "../cel/request-view.ts";
import { RequestWork } from "../cel/request-work.ts";
import { clientAddress } from "../filters/client-address.ts";
import { setCorsHeaders } from "../filters/cors.ts";
import type { Match } from "../ir/match.ts";
import type { Listener } from "../ir/snapshot.ts";
import type { HeldRequest } from "../listen/client-connections.ts";
import type { Connection } from "../listen/connection.ts";
import type { Downstream, DownstreamEvents } from "../listen/downstream.ts";
import { memoryInProgress, memoryOfResponse } from "../listen/request-memory.ts";
import { clientApi } from "../llm/client-api.ts";
import { maxAiRequestBytes } from "../llm/ai-request.ts";
import type { LlmRequest } from "../llm/llm-request.ts";
import type { RequestHead as RoutableHead, RequestModel, RouteMatch } from "../routing/compile-routes.ts";
import { passedOver } from "../routing/passed-over.ts";
import type { PathRules } from "../routing/path-rules.ts";
import type { ViewedRequest } from "../telemetry/access-log/ended-request.ts";
import type { RequestRecord } from "../telemetry/request-record.ts";
import type { RequestSpan } from "../telemetry/spans/request-span.ts";
import type { RequestTrace } from "../telemetry/trace/request-trace.ts";
import type { Tracer } from "../telemetry/trace/tracer.ts";
import type { Forwarding } from "./attempts/forwarding.ts";
import type { ProviderChoice } from "./attempts/provider-choice.ts";
import type { RequestDeadline } from "./attempts/request-deadline.ts";
import type { BodyBudget } from "./body/body-budget.ts";
import { largeBodyBytes, RequestBody } from "./body/request-body.ts";
import type { CompiledRule, CompiledTarget } from "./compiled-rule.ts";
import type { Linked, LinkedSet } from "./linked-set.ts";
import { grpcReply, isGrpcRequest } from "./grpc-reply.ts";
import {
  headMemoryFull,
  internalError,
  type LocalReply,
  malformedBody,
  modelNotFound,
  routeNotFound,
  trailersTooLarge,
  uploadStalled,
  upstreamTimeout,
} from "./local-replies.ts";
import { LoggedExchange } from "./logged-exchange.ts";
import { newRecord, type RecordServices } from "./new-record.ts";
import type { RequestReservation } from "./request-reservation.ts";
import { type ModelReading, type ReadModel, readModelForRoute, routedModel } from "./requested-model.ts";
import type { StageServices } from "./services.ts";
import type { OutgoingToBackend, Stage, StagedRequest, StageResult, Wait } from "./stage.ts";
import type { Pipeline } from "./stages.ts";
import type { Stallable, StallState } from "./stream-idle-timeouts.ts";
import {
  llmUsage,
  policySelection,
  requestFinished,
  requestStarted,
  routeSelection,
  severityOfStatus,
} from "./trace-messages.ts";

/** The services that all exchanges of a bind share. */
export interface ExchangeServices extends StageServices, RecordServices {
  /** Number of trusted proxies in front of this one that append to `X-Forwarded-For`. */
  readonly trustedHops: number;
  /** Length in bits of the IPv6 prefix that `source.address` has. */
  readonly ipv6PrefixLength: number;
  /** Memory for request bodies. */
  readonly bodies: BodyBudget;
  /** All exchanges that have begun and not ended. */
  readonly live: LinkedSet<Exchange>;
  /** Assigns requests to the traces of operators and to the log of single requests. */
  readonly tracer: Tracer;
  /** How paths of requests and of routes are normalized. */
  readonly pathRules: PathRules;
  /** Called once per exchange, at its start. */
  readonly started: () => void;
  /** Called once per exchange, at its end. The record does not change after it. */
  readonly finished: (record: RequestRecord, request: ViewedRequest) => void;
  /** Called for an internal error. */
  readonly faulted: (error: unknown, record: RequestRecord) => void;
}

/** Maximum number of rules that do not match in a trace. */
const maxPassedOver = 50;

const textHeaders = ["content-type", "text/plain"];

/** The match of a request that no rule serves. */
const noMatch: Match = { path: { kind: "PathPrefix", value: "/" }, headers: [], query: [] };

/** What an exchange waits for between two stages. */
interface OpenWait {
  /** Monotonic. */
  readonly sinceMs: number;
  readonly task: Wait<unknown>["task"];
  /** Called if the request ends first. */
  readonly abandon: () => void;
}

/**
 * A request and its response. `serve` or `reject` is called once after the constructor. Then the exchange handles the
 * events of its `Downstream`.
 */
export class Exchange implements StagedRequest, DownstreamEvents, Stallable, HeldRequest, Linked<Exchange> {
  before: Exchange | undefined;
  after: Exchange | undefined;
  stallState: StallState | undefined;

  readonly services: ExchangeServices;
  downstream: Downstream;
  readonly record: RequestRecord;
  readonly startMs: number;
  readonly span: RequestSpan | undefined;
  trace: RequestTrace | undefined;
  match: Match = noMatch;
  isQueryAmbiguous = false;
  target: CompiledTarget | undefined;
  providers: ProviderChoice | undefined;
  llm: LlmRequest | undefined;
  identities: Identities | undefined;
  reservation: RequestReservation | undefined;
  loop = "";
  deadline: RequestDeadline | undefined;
  outgoing: OutgoingToBackend | undefined;

  /**
   * The state of the request.
   * - `staged`: its stages run. They move it to one of the others.
   * - `waiting`: a stage waits. It moves on by `#resume`, or is ended by `abort`.
   * - `forwarding`: `#forwarding` makes attempts, and responds.
   * - `responded`: a local reply was sent, and the client has not read all of it.
   * - `closed`: the client has received the whole response, or has disconnected. `#forwarding` may still read the
   *   response, for its usage.
   */
  #state: "staged" | "waiting" | "forwarding" | "responded" | "closed" = "staged";
  #stages: readonly Stage[] = [];
  /** The stage that runs next. */
  #next = 0;
  /** Undefined if no rule matches. */
  #rule: CompiledRule | undefined;
  #wait: OpenWait | undefined;
  #forwarding: Forwarding | undefined;
  #body: RequestBody | undefined;
  #view: RequestView | undefined;
  /** The head of a local reply; undefined for none. */
  #replyHeaders: readonly string[] | undefined;
  /** The model for which the rule was searched; undefined where the search did not depend on it. */
  #routed: RequestModel | undefined;
  /** Asked for in few requests. */
  #headBytes: number | undefined;

  constructor(services: ExchangeServices, downstream: Downstream) {
    const { head, connection, exchange } = downstream;
    this.services = services;
    this.downstream = downstream;
    this.startMs = services.clock.monotonicMs();
    this.span = services.tracing?.begin(head.rawHeaders, this.startMs);
    this.record = newRecord(services, head, connection, exchange.httpVersion, this.span);
    services.live.add(this);
    services.started();
  }

  /**
   * Runs the stages of a rule.
   *
   * @param match where the request belongs; absent when no rule matches.
   * @param listener whose host it asked for, if any.
   */
  serve(match: RouteMatch<Pipeline> | undefined, listener: Listener | undefined): void {
    this.record.listener = listener?.key;
    if (this.services.tracer.isWatching) this.#beginTrace(match, listener);
    try {
      if (match === undefined) this.reply(this.#notFound());
      else this.#begin(match);
    } catch (error) {
      this.fault(error);
    }
  }

  /** Responds with `reply`. No stage runs. @param listener as for `serve`. */
  reject(reply: LocalReply, listener: Listener | undefined): void {
    this.record.listener = listener?.key;
    if (this.services.tracer.isWatching) this.#beginTrace(undefined, listener);
    this.reply(reply);
  }

  /**
   * Reads the model of the request, on which its rule depends, before `serve` or `reject`.
   *
   * @param onRead called once the model is read; never when it cannot be read or the client leaves meanwhile.
   */
  readModel(listener: Listener | undefined, onRead: (read: ReadModel) => void): void {
    this.record.listener = listener?.key;
    this.wait<ModelReading>({
      start: (done) => readModelForRoute(this.downstream.head, this.takeBody(), done),
      proceed: (reading) => {
        if (reading.kind === "rejected") {
          this.reject(reading.reply, listener);
        } else {
          this.record.clientModel = reading.llm.requestModel;
          if (reading.isWhole) this.llm = reading.llm;
          this.#routed = routedModel(reading, this.downstream.head.path);
          onRead(reading);
        }
        // The stages have run, or the client has its response.
        return "waiting";
      },
    });
  }

  /** Where some rule would serve another model, the client gets the error of its API. */
  #notFound(): LocalReply {
    const { path, rawHeaders } = this.downstream.head;
    return this.#routed?.kind === "named" ? modelNotFound(clientApi(path, rawHeaders)) : routeNotFound;
  }

  #begin({ compiled, match, isQueryAmbiguous }: RouteMatch<Pipeline>): void {
    const { rule, stages } = compiled;
    this.#rule = rule;
    this.match = match;
    this.isQueryAmbiguous = isQueryAmbiguous;
    if (this.span !== undefined) this.span.pathMatch = match.path.value;
    this.record.route = rule.route;
    this.record.rule = rule.key;
    this.#stages = stages;
    this.#run("continue");
  }

  /** Runs the stages after the one that has ended with `result`. */
  #run(result: StageResult): void {
    while (result === "continue") {
      const stage = this.#stages[this.#next++];
      if (stage === undefined) {
        throw new Error("the last stage of a rule has neither responded nor forwarded the request");
      }
      result = stage.run(this);
    }
    if (typeof result !== "object") return;
    // A stage that has ended the request has sent a response already.
    if (this.#state !== "staged") return;
    this.#state = "forwarding";
    this.#forwarding = result;
    result.start();
  }

  wait<Value>(wait: Wait<Value>): StageResult {
    const open: OpenWait = {
      sinceMs: this.services.clock.monotonicMs(),
      task: wait.task,
      abandon: () => wait.onAbandoned?.(),
    };
    let isStarting = true;
    let result: StageResult | undefined;
    wait.start((value) => {
      if (isStarting) result = wait.proceed(value);
      else if (this.#wait === open) this.#resume(wait, value);
      else wait.onLate?.(value);
    });
    isStarting = false;
    if (result !== undefined) return result;
    this.#wait = open;
    this.#state = "waiting";
    return "waiting";
  }

  #resume<Value>(wait: Wait<Value>, value: Value): void {
    this.#wait = undefined;
    this.#state = "staged";
    try {
      this.#run(wait.proceed(value));
    } catch (error) {
      this.fault(error);
    }
  }

  #abandonWait(): void {
    const wait = this.#wait;
    this.#wait = undefined;
    wait?.abandon();
  }

  get rule(): CompiledRule {
    if (this.#rule === undefined) throw new Error("no rule serves the request");
    return this.#rule;
  }

  get client(): string {
    return networkOf(this.#clientAddress(), this.services.ipv6PrefixLength);
  }

  #clientAddress(): string {
    const { head, connection } = this.downstream;
    return clientAddress(head.rawHeaders, connection.sourceAddress, this.services.trustedHops);
  }

  get view(): RequestView {
    return (this.#view ??= this.#viewOf(this.#rule));
  }

  /** @param rule undefined if none matches. */
  #viewOf(rule: CompiledRule | undefined): RequestView {
    const { head, connection } = this.downstream;
    const { method, path, authority, scheme, rawHeaders } = head;
    return {
      method,
      path,
      authority,
      scheme,
      rawHeaders,
      serverName: connection.tls?.serverName || undefined,
      sourceAddress: this.#clientAddress(),
      ipv6PrefixLength: this.services.ipv6PrefixLength,
      route: rule?.route ?? "",
      gateway: rule?.gateway ?? "",
      identities: this.identities,
      work: new RequestWork(),
    };
  }

  get responseHeaders(): readonly string[] {
    return this.#replyHeaders ?? this.#forwarding?.responseHeaders ?? [];
  }

  takeBody(): RequestBody | undefined {
    this.#body ??= this.#newBody();
    // Again for each reader: the model is read before the rule and the target are known.
    if (this.#body !== undefined) this.#keepForAttempts(this.#body);
    return this.#body;
  }

  #newBody(): RequestBody | undefined {
    const { body } = this.downstream.exchange;
    if (body === undefined) return undefined;
    const share = this.services.bodies.openShare(this.client);
    return new RequestBody({ body, record: this.record, share, owner: this });
  }

  #keepForAttempts(body: RequestBody): void {
    const isRetried = this.#rule?.retry !== undefined;
    if (isRetried) body.keepUpTo(largeBodyBytes);
    const isMoved = (this.providers?.list.providers.length ?? 0) > 1;
    if (this.providers === undefined || !(isRetried || isMoved)) return;
    // Each provider gets the body as it came, edited for it.
    body.keepUpTo(maxAiRequestBytes);
    body.keepOriginal();
  }

  reply(reply: LocalReply): "responded" {
    this.record.reason = reply.reason;
    const refund = this.#forwarding === undefined ? reply.refund : this.#forwarding.refundCause(reply);
    if (refund !== undefined) this.reservation?.refund(refund);
    const headers = [...(reply.headers ?? textHeaders)];
    this.reservation?.setHeaders(headers);
    if (reply.retryAfter !== undefined) headers.push("retry-after", String(reply.retryAfter));
    for (const challenge of reply.challenges ?? []) headers.push("www-authenticate", challenge);
    if (reply.acceptEncoding !== undefined) headers.push("accept-encoding", reply.acceptEncoding);
    return this.respondWithCors(reply.status, headers, reply.body);
  }

  respondWithCors(status: number, headers: string[], body: Buffer | string): "responded" {
    const cors = this.#rule?.cors;
    if (cors !== undefined) setCorsHeaders(cors, this.downstream.head.rawHeaders, headers);
    return isGrpcRequest(this.record.httpVersion, this.downstream.head.rawHeaders)
      ? this.#respondToGrpc(status, headers, body)
      : this.respond(status, headers, body);
  }

  #respondToGrpc(status: number, headers: string[], body: Buffer | string): "responded" {
    const reply = grpcReply({ status, reason: this.record.reason, headers, body });
    this.record.grpcStatus = reply.code;
    return this.respond(200, reply.headers, "");
  }

  respond(status: number, headers: string[], body: Buffer | string): "responded" {
    this.record.status = status;
    this.record.responseBytes = body.length;
    headers.push("x-request-id", this.record.requestId);
    this.#replyHeaders = headers;
    this.#state = "responded";
    this.deadline?.cancel();
    this.downstream.exchange.respond(status, headers, body);
    return "responded";
  }

  abort(reply: LocalReply): void {
    try {
      this.#abort(reply);
    } catch (error) {
      this.fault(error);
    }
  }

  #abort(reply: LocalReply): void {
    switch (this.#state) {
      case "staged":
      case "waiting":
        this.#abandonWait();
        this.reply(reply);
        return;
      case "forwarding":
        this.#forwarding?.abort(reply);
        return;
      case "responded":
        // The client does not receive the response that has set another reason.
        this.record.reason = reply.reason;
        this.downstream.exchange.reset();
        return;
      case "closed":
        return;
    }
  }

  fault(error: unknown): void {
    this.services.faulted(error, this.record);
    try {
      this.#abort(internalError);
    } catch (failure) {
      // A header that cannot be written makes any response fail, so this one may fail for the same reason.
      this.services.faulted(failure, this.record);
      this.downstream.exchange.reset();
    }
  }

  onBodyRejected(status: 400 | 431, message: string): void {
    this.abort(status === 431 ? trailersTooLarge : malformedBody(message));
  }

  onDrain(): void {
    try {
      this.#forwarding?.resume();
    } catch (error) {
      this.fault(error);
    }
  }

  onClose(completed: boolean): void {
    this.#state = "closed";
    try {
      this.#close(completed);
    } catch (error) {
      this.#release();
      this.fault(error);
    }
  }

  #close(completed: boolean): void {
    // The response may still be read for its usage. The duration does not include that time.
    this.record.durationMs = this.services.clock.monotonicMs() - this.startMs;
    this.#abandonWait();
    this.deadline?.cancel();
    if (!completed) this.record.reason ??= "ClientDisconnect";
    if (this.#forwarding === undefined) this.#finish();
    else this.#forwarding.close(() => this.#finish());
  }

  #finish(): void {
    this.#release();
    if (this.trace !== undefined) endTrace(this.trace, this.record);
    const { tracing } = this.services;
    if (this.span !== undefined) this.record.isExported = tracing?.isExported(this.span, this.record) === true;
    this.services.finished(this.record, this);
    if (this.span !== undefined) tracing?.end(this.span, this.record);
  }

  #release(): void {
    this.services.live.delete(this);
    this.#body?.release();
    this.reservation?.release();
  }

  get connection(): Connection {
    return this.downstream.connection;
  }

  get delaysOthers(): boolean {
    const takesMemory = this.#body?.isHeld === true && this.services.bodies.isTight;
    return takesMemory || this.#forwarding?.delaysOthers === true;
  }

  progress(): number | undefined {
    if (this.#state === "closed") return undefined;
    const { status, requestBytes, responseBytes } = this.record;
    const { unreadBytes } = this.downstream.exchange;
    // A response may start before the upload ends. Such an upload has no timeout unless it delays other requests.
    const waitsForUpload = this.#body?.waitsFor !== undefined && (status === 0 || this.delaysOthers);
    return waitsForUpload || unreadBytes > 0 ? requestBytes + responseBytes - unreadBytes : undefined;
  }

  endStalled(): void {
    if (this.record.status === 0) {
      this.abort(this.#body?.waitsFor === "call" ? upstreamTimeout : uploadStalled);
    } else if (this.#state !== "closed") {
      this.record.reason ??= "StreamIdleTimeout";
      this.downstream.exchange.reset();
    }
  }

  get memoryBytes(): number {
    const { head, exchange } = this.downstream;
    this.#headBytes ??= memoryInProgress(head.path, head.rawHeaders);
    const responseBytes = exchange.waitingBytes + (this.#forwarding?.bufferedBytes ?? 0);
    return this.#headBytes + memoryOfResponse(responseBytes);
  }

  endForMemory(): void {
    if (this.#state === "closed") return;
    this.connection.ended.count(this.services.clock.monotonicMs());
    this.abort(headMemoryFull);
  }

  /** Returns the task of the request, with its current wait or attempt, for operators. @param nowMs monotonic. */
  describe(nowMs: number): Task {
    const { requestId, method, path, route, backend, endpoint, status, attempts } = this.record;
    const children: Task[] = [];
    if (this.#wait?.task !== undefined) {
      children.push({ ...this.#wait.task, ageMs: nowMs - this.#wait.sinceMs, children: [] });
    }
    const attemptSinceMs = this.#forwarding?.attemptSinceMs;
    if (attemptSinceMs !== undefined) {
      const detail = { backend: backend ?? "", call: attempts };
      children.push({
        kind: "upstreamCall",
        name: endpoint ?? "",
        ageMs: nowMs - attemptSinceMs,
        detail,
        children: [],
      });
    }
    const name = `${redactText(method)} ${redactText(path.split("?", 1)[0] ?? "")}`;
    const detail = { requestId, ...(route !== undefined && { route }), ...(status !== 0 && { status }) };
    return { kind: "request", name, ageMs: nowMs - this.startMs, detail, children };
  }

  #beginTrace(match: RouteMatch<Pipeline> | undefined, listener: Listener | undefined): void {
    const { tracer } = this.services;
    const rule = match?.compiled.rule;
    this.record.route = rule?.route;
    const trace = tracer.claim(this.record, () => this.#viewOf(rule), this.startMs);
    if (trace === undefined) return;
    this.trace = trace;
    const { downstream } = this;
    if (trace.log !== undefined) {
      this.downstream = { ...downstream, exchange: new LoggedExchange(downstream.exchange, trace.log.server) };
    }
    trace.emit(requestStarted(this.record, downstream.head, tracer.worker), "info", this.startMs);
    const others =
      listener === undefined
        ? { rules: [], more: 0 }
        : passedOver(listener, this.#routedHead(), rule?.key, this.services.pathRules, maxPassedOver);
    const model = this.#routed?.kind === "named" ? this.#routed.name : undefined;
    trace.emit(routeSelection(match, listener, others, model), match === undefined ? "error" : "success", this.startMs);
    if (rule !== undefined) trace.emit(policySelection(rule));
  }

  /** The head with which the rule was searched. */
  #routedHead(): RoutableHead {
    const { head } = this.downstream;
    return this.#routed === undefined ? head : { ...head, model: this.#routed };
  }
}

function endTrace(trace: RequestTrace, record: RequestRecord): void {
  const usage = llmUsage(record);
  if (usage !== undefined) trace.emit(usage);
  trace.emit(requestFinished(record), severityOfStatus(record.status, record.reason));
  trace.end();
}
