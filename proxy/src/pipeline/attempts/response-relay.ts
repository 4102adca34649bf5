/**
 * Forwards a response from the backend to the client. The bytes of one turn of the event loop, including the head, are
 * sent in one write at the end of that turn, at the pace of the client: a complete small response, or all events of a
 * read, which would otherwise cost a write each. The usage reader also gets the bytes, and the limits are charged
 * before the client can see the end, so that the next request sees the charge.
 */
import { fieldOf } from "@gatewayproxy/http/fields";
import type { Duplex } from "node:stream";
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import type { HeaderEditor } from "../../filters/header-edits.ts";
import type { TokenUsage } from "../../ir/usage.ts";
import type { Downstream } from "../../listen/downstream.ts";
import type { StreamedError } from "../../llm/provider-error.ts";
import type { Ending } from "../../llm/usage-reader.ts";
import type { FailureReason, ProviderCall, RequestRecord } from "../../telemetry/request-record.ts";
import type { AttemptSpan } from "../../telemetry/spans/request-span.ts";
import type { ResponseSink, UpstreamCall } from "../../upstream/call.ts";
import type { UpstreamFailure } from "../../upstream/failure.ts";
import { readGrpcStatus } from "../grpc-reply.ts";
import type { RealtimeSession } from "../realtime-session.ts";
import type { RequestReservation } from "../request-reservation.ts";
import type { AbandonedResponse } from "./abandoned-responses.ts";
import { isJson, removeField } from "./fields.ts";
import { FirstEvent } from "./first-event.ts";
import type { ResponseUsage } from "./response-usage.ts";
import { joinTunnel } from "./tunnel.ts";

/** One attempt, and the request whose response it brings. */
export interface RelayOptions {
  /** Times the attempt, and waits for the end of a response. */
  readonly clock: Clock;
  /** Receives the response. */
  readonly downstream: Downstream;
  /** Gets the status and the bytes of the response. */
  readonly record: RequestRecord;
  /** The units that the request holds of its limits; undefined if it has no limits. */
  readonly reservation: RequestReservation | undefined;
  /** Edits the flat header section in place; undefined if there is nothing to edit. */
  readonly editResponse: HeaderEditor | undefined;
  /** Reads the usage of the response; undefined if it is not needed. */
  readonly usage: ResponseUsage | undefined;
  /** Whether the head shows the rest of a token limit to which the response is charged. */
  readonly reportsCharge: boolean;
  /** Joins both sides after a switch of protocols; undefined: a tunnel does. */
  readonly session: RealtimeSession | undefined;
  /** Gets the status and the end of the attempt; undefined if spans are not exported. */
  readonly attempt: AttemptSpan | undefined;
  /** Gets the end of the attempt; undefined if it is not at an LLM provider. */
  readonly providerCall: ProviderCall | undefined;
  /** Decides whether the response is forwarded, and receives failures before its start. */
  readonly owner: RelayOwner;
}

/** The owner of a request, which can still use another call. */
export interface RelayOwner {
  /** Whether the body of a response with this head is read before `acceptsStatus`. */
  readsErrorBody(status: number, headers: readonly string[]): boolean;
  /**
   * Whether to forward a response with this head. If not, the call has been aborted.
   *
   * @param body where `readsErrorBody`: its beginning, as far as it has come; else empty.
   */
  acceptsStatus(status: number, headers: readonly string[], body: string): boolean;
  /**
   * Whether a response with this accepted head is held until its first event, or its first byte if it is no stream, so
   * that another provider can respond if it fails before.
   */
  holdsResponse(headers: readonly string[]): boolean;
  /** Data of a held response has arrived, and no event yet. */
  onHeldData(): void;
  /** Whether to forward a held stream whose first event is an error. If not, `onErrorEvent` follows. */
  acceptsErrorEvent(error: StreamedError): boolean;
  /** A held stream with an error as its first event is not forwarded. */
  onErrorEvent(error: StreamedError): void;
  /** A held response is forwarded from now on. */
  onBegun(): void;
  /** The call failed before any part of its response was forwarded. */
  onUpstreamFailure(failure: UpstreamFailure): void;
  /** The backend has switched protocols, so there will be no response. */
  onSwitched(): void;
  /** Whether a provider may bill the call, which has failed before its response. */
  isBilled(failure: UpstreamFailure): boolean;
  /** Forwarding the response failed with an internal error. */
  onFault(error: unknown): void;
}

const nothing = Buffer.alloc(0);
const noHeaders: readonly string[] = [];
/**
 * Maximum time in which the end of a stream waits for its usage, and a head for the end of its response or its error.
 */
const maxWaitMs = 1_000;
/** Maximum bytes of a response whose head waits for its end, its error or its first event. */
const maxAwaitedBytes = 64 * 1024;
/** The highest that HTTP/2 can say by Node; HTTP/1.1 passes on what some sites make up. */
const maxHttp2Status = 599;

/** The response to one attempt. `settle` charges its cost once, whatever becomes of it. */
export class ResponseRelay implements ResponseSink {
  readonly #options: RelayOptions;
  /** When its call was made; monotonic. */
  readonly sentMs: number;
  #headers: string[] = [];
  /** The head as the client got it: names and values in turn; empty while it has got none. */
  sentHeaders: readonly string[] = noHeaders;
  /** The bytes of this turn of the event loop, or of the whole response if it waits for its end. */
  #gathered: Buffer[] = [];
  #gatheredBytes = 0;
  /** Whether the memory of the gathered bytes has no other user. */
  #isExclusive = false;
  /** The head waits for the end of the response, to show the rest of the limit at that time. */
  #awaitsEnd = false;
  /** Of what waits, the head or an event. */
  #waitTimer: Timer | undefined;
  /** The event that `#waitTimer` is for. */
  #waitingEvent: object | undefined;
  /**
   * The state of the response towards the client.
   * - `awaitingHead`: no head has arrived. An accepted head moves it to `headHeld`, a switch of protocols to `ended`.
   * - `errorHeld`: `#errorHead` is accepted or not when the body is complete, too long, or has taken too long.
   * - `headHeld`: the head waits for the end of the turn, or of the response. Then it is sent alone (`started`) or with
   *   the complete body (`ended`).
   * - `started`: the head was sent. The end, a failure or `cutOff` move it to `ended`.
   * - `ended`: the client gets nothing more.
   * - `dropped`: the response is not forwarded: its status is retried, or it failed before `started`. Another attempt
   *   or a local reply follows.
   * - `abandoned`: `abandon` moves it here when the client has left. The response is only read for its usage.
   */
  #state: "awaitingHead" | "errorHeld" | "headHeld" | "started" | "ended" | "dropped" | "abandoned" = "awaitingHead";
  #errorHead: { readonly status: number; readonly headers: string[] } | undefined;
  #abandoned: AbandonedResponse | undefined;
  /** The response is held until it has begun; undefined if it is not, or has. */
  #awaited: FirstEvent | undefined;
  /** gRPC: a head with the status is the complete response. Its end follows, and must be in the frame of the head. */
  #isTrailersOnly = false;

  constructor(options: RelayOptions) {
    this.#options = options;
    this.sentMs = options.clock.monotonicMs();
  }

  onInterimHead(status: number, headers: string[]): void {
    if (this.#state === "awaitingHead") this.#options.downstream.exchange.inform(status, headers);
  }

  onHead(status: number, headers: string[], call: UpstreamCall): void {
    const { usage, owner, downstream, attempt } = this.#options;
    if (attempt !== undefined) attempt.status = status;
    if (this.#state === "abandoned") {
      usage?.beginAbandoned(status, headers);
      return;
    }
    if (status > maxHttp2Status && downstream.exchange.httpVersion === "2") {
      call.abort();
      this.onFailure({ kind: "reset", message: `HTTP/2 has no status ${status}` }, call);
      return;
    }
    if (owner.readsErrorBody(status, headers)) this.#holdError(status, headers, call);
    else this.#decide(status, headers, "", call);
  }

  #holdError(status: number, headers: string[], call: UpstreamCall): void {
    const { clock, owner } = this.#options;
    this.#state = "errorHeld";
    this.#errorHead = { status, headers };
    this.#waitTimer = clock.setTimer(maxWaitMs, () => {
      try {
        this.#decideOnError(call);
      } catch (error) {
        owner.onFault(error);
      }
    });
  }

  /** Decides on an error whose body has been read, if there is one. @returns as `#decide`. */
  #decideOnError(call: UpstreamCall): boolean {
    if (this.#state !== "errorHeld" || this.#errorHead === undefined) return true;
    this.#waitTimer?.cancel();
    this.#waitTimer = undefined;
    const { status, headers } = this.#errorHead;
    return this.#decide(status, headers, Buffer.concat(this.#gathered).toString(), call);
  }

  /** @param errorBody as `RelayOwner.acceptsStatus`. @returns false if the response is not forwarded. */
  #decide(status: number, headers: string[], errorBody: string, call: UpstreamCall): boolean {
    const { usage, reportsCharge, owner } = this.#options;
    if (!owner.acceptsStatus(status, headers, errorBody)) {
      this.#endAttempt();
      this.#state = "dropped";
      return false;
    }
    if (isWithoutContent(status)) removeField(headers, "content-length");
    // RFC 9110 §15.3.6; a 204 has no length (§8.6).
    if (status === 205) headers.push("content-length", "0");
    usage?.begin(status, headers);
    this.#begin(status, call);
    this.#headers = headers;
    this.#state = "headHeld";
    const grpcStatus = fieldOf(headers, "grpc-status");
    this.#isTrailersOnly = grpcStatus !== undefined;
    this.#options.record.grpcStatus = readGrpcStatus(grpcStatus);
    this.#awaitsEnd = reportsCharge && status < 400 && isJson(headers);
    if (!this.#isTrailersOnly && owner.holdsResponse(headers)) this.#awaited = new FirstEvent(headers);
    if (!this.#isTrailersOnly) process.nextTick(release, this, call);
    return true;
  }

  onUpgrade(headers: string[], connection: Duplex, call: UpstreamCall): void {
    const { record, downstream, owner } = this.#options;
    if (this.#state === "abandoned") {
      connection.destroy();
      return;
    }
    owner.onSwitched();
    if (this.#options.attempt !== undefined) this.#options.attempt.status = 101;
    // HTTP/2 says with 200 what HTTP/1.1 says with 101 (RFC 8441 §5).
    this.#begin(downstream.exchange.httpVersion === "2" ? 200 : 101, call);
    this.#finishHead(headers);
    try {
      const client = downstream.exchange.switchProtocols(downstream.upgrade ?? "", headers);
      this.#state = "ended";
      connection.once("close", () => {
        if (call.isDisplaced) record.reason ??= "BackendOverloaded";
      });
      const onBroken = (): void => {
        record.reason ??= "UpstreamReset";
      };
      const { session } = this.#options;
      if (session === undefined) joinTunnel(client, connection, record, onBroken);
      else session.join(client, connection, onBroken);
    } catch (error) {
      owner.onFault(error);
    }
  }

  #begin(status: number, call: UpstreamCall): void {
    const { record, clock } = this.#options;
    record.status = status;
    record.endpoint = call.address;
    record.upstreamMs = clock.monotonicMs() - this.sentMs;
  }

  /** Makes a head ours when it leaves. A failed call that is made again has not been refunded until then. */
  #finishHead(headers: string[]): void {
    const { record, reservation, editResponse } = this.#options;
    // Before the headers, so that they include a refund of the policy.
    if (record.status >= 500) reservation?.refund("BackendError");
    reservation?.setHeaders(headers);
    editResponse?.(headers);
    this.sentHeaders = headers;
  }

  onData(chunk: Buffer, isExclusive: boolean, call: UpstreamCall): void {
    this.#isExclusive = isExclusive;
    if (this.#state === "abandoned") {
      this.#options.usage?.push(chunk);
      this.#abandoned?.countBytes(chunk.length);
      return;
    }
    if (this.#state === "errorHeld") {
      this.#gathered.push(chunk);
      this.#gatheredBytes += chunk.length;
      if (this.#gatheredBytes > maxAwaitedBytes) this.#decideOnError(call);
      return;
    }
    if (this.#state !== "headHeld" && this.#state !== "started") return;
    if (isWithoutContent(this.#options.record.status)) return;
    this.#gathered.push(chunk);
    this.#gatheredBytes += chunk.length;
    if (this.#awaited !== undefined) {
      this.#awaitBegin(this.#awaited, chunk, call);
      return;
    }
    const isScheduled = this.#state === "headHeld" && !this.#isTrailersOnly;
    if (!isScheduled && this.#gathered.length === 1) process.nextTick(release, this, call);
    if (this.#awaitsEnd && this.#gatheredBytes > maxAwaitedBytes) this.#awaitNoMore(call);
  }

  #awaitBegin(awaited: FirstEvent, chunk: Buffer, call: UpstreamCall): void {
    if (!awaited.push(chunk) && this.#gatheredBytes <= maxAwaitedBytes) {
      this.#options.owner.onHeldData();
      return;
    }
    if (this.#begins(awaited)) process.nextTick(release, this, call);
  }

  /** Ends the wait for the first event. @returns false if it is an error, and the response is not forwarded for it. */
  #begins(awaited: FirstEvent): boolean {
    const { owner, record, usage } = this.#options;
    this.#awaited = undefined;
    const error = awaited.errorIn(Buffer.concat(this.#gathered));
    if (error === undefined || owner.acceptsErrorEvent(error)) {
      owner.onBegun();
      return true;
    }
    this.#state = "dropped";
    record.status = 0;
    usage?.discard();
    this.#endAttempt("error_event");
    owner.onErrorEvent(error);
    return false;
  }

  #awaitNoMore(call: UpstreamCall): void {
    this.#awaitsEnd = false;
    this.#waitTimer?.cancel();
    process.nextTick(release, this, call);
  }

  /** @param failure its kind; absent for none. */
  #endAttempt(failure?: string): void {
    const { attempt, providerCall, clock } = this.#options;
    if (attempt !== undefined) end(attempt, clock, failure);
    if (providerCall !== undefined) end(providerCall, clock, failure);
  }

  onEnd(trailers: string[], call: UpstreamCall): void {
    this.#endAttempt();
    if (this.#state === "abandoned") {
      this.#endAbandoned("whole");
      return;
    }
    if (!this.#decideOnError(call)) return;
    if (this.#awaited?.isMissing === true) {
      this.onFailure({ kind: "reset", message: "the stream ended before its first event" }, call);
      return;
    }
    if (this.#awaited !== undefined && !this.#begins(this.#awaited)) return;
    if (trailers.length > 0) this.#options.record.grpcStatus ??= readGrpcStatus(fieldOf(trailers, "grpc-status"));
    const piece = this.#takeGathered();
    const rest = this.#options.usage?.end() ?? nothing;
    const last = rest.length === 0 ? piece : Buffer.concat([piece, rest]);
    this.settle("whole", () => this.#end(last, trailers, call));
  }

  onFailure(failure: UpstreamFailure, call: UpstreamCall): void {
    this.#endAttempt(failure.kind);
    const { record, downstream, usage, owner } = this.#options;
    if (this.#state === "abandoned") {
      this.#endAbandoned(usage?.isReading === true || owner.isBilled(failure) ? "cutShort" : "whole");
      return;
    }
    if (!this.#decideOnError(call)) return;
    // Its head and a part of it have come, and would have been passed on.
    const isHeldForEnd = this.#awaitsEnd && this.#awaited === undefined && this.#waitTimer !== undefined;
    if (this.#state === "headHeld" && isHeldForEnd) this.#start();
    if (this.#state !== "started") {
      this.#state = "dropped";
      record.status = 0;
      usage?.discard();
      owner.onUpstreamFailure(failure);
      return;
    }
    record.reason ??= failure.kind === "timeout" ? "UpstreamTimeout" : "UpstreamReset";
    this.#write(this.#takeGathered(), call);
    this.#write(usage?.end() ?? nothing, call);
    this.#state = "ended";
    this.settle("cutShort", () => {
      downstream.exchange.reset();
    });
  }

  onFault(error: unknown): void {
    this.#options.owner.onFault(error);
  }

  /** The client has left: the rest of the response is only read for its usage. `done` is called when it is charged. */
  abandon(read: AbandonedResponse, done: () => void): void {
    this.#takeGathered();
    this.#waitTimer?.cancel();
    this.#abandoned = read;
    this.#state = "abandoned";
    this.#options.usage?.abandon(done);
  }

  #endAbandoned(ending: Ending): void {
    this.settle(ending, nothingMore);
    this.#abandoned?.end();
  }

  /**
   * The client has left, or has everything: nothing more is forwarded. `done` is called when the response is charged.
   */
  close(ending: Ending, done: () => void): void {
    this.settle(ending, done);
    this.#state = "ended";
  }

  /**
   * Truncates a response that the client is receiving, and charges the forwarded part.
   *
   * @returns false if it has received nothing. Then nothing is forwarded, and another response can be sent.
   */
  cutOff(reason: FailureReason): boolean {
    if (this.#state !== "started" && this.#state !== "ended") {
      this.#state = "dropped";
      return false;
    }
    const { record, downstream } = this.#options;
    record.reason ??= reason;
    if (this.#state === "started") {
      const rest = Buffer.concat([this.#takeGathered(), this.#options.usage?.end() ?? nothing]);
      record.responseBytes += rest.length;
      if (rest.length > 0) downstream.exchange.write(rest, false);
    }
    this.#state = "ended";
    this.settle("cutShort", () => {
      downstream.exchange.reset();
    });
    return true;
  }

  /** Whether the response to the client is incomplete. */
  get isInProgress(): boolean {
    return this.#state === "awaitingHead" || this.#state === "headHeld" || this.#state === "started";
  }

  /** Charges the usage of the response, as `ResponseUsage.settle`. */
  settle(ending: Ending, done: () => void): void {
    const { usage } = this.#options;
    if (usage === undefined || usage.isSettled) {
      done();
      return;
    }
    this.#waitTimer?.cancel();
    // The rest for a client that has left was used nevertheless. After the end of a response there is none.
    this.#takeGathered();
    usage.settle(ending, done);
  }

  /** As `ResponseUsage.costIfLeft`. */
  costIfLeft(): TokenUsage | undefined {
    return this.#options.usage?.costIfLeft();
  }

  /** Forwards the bytes of this turn, after the head if it is still held, unless the response is complete. */
  release(call: UpstreamCall): void {
    if (this.#state !== "headHeld" && this.#state !== "started") return;
    if (this.#awaited !== undefined) return;
    try {
      if (this.#state === "headHeld" && this.#awaitsEnd) {
        this.#waitTimer ??= this.#options.clock.setTimer(maxWaitMs, () => this.#awaitNoMore(call));
        return;
      }
      if (this.#state === "headHeld") this.#start();
      this.#write(this.#takeGathered(), call);
      this.#limitWait(call);
    } catch (error) {
      this.#options.owner.onFault(error);
    }
  }

  /** Sees to it that an event does not wait longer than `maxWaitMs` for the next one. */
  #limitWait(call: UpstreamCall): void {
    const waiting = this.#options.usage?.heldEvent;
    if (waiting === this.#waitingEvent) return;
    this.#waitTimer?.cancel();
    this.#waitingEvent = waiting;
    if (waiting !== undefined) {
      this.#waitTimer = this.#options.clock.setTimer(maxWaitMs, () => this.#releaseEvent(call));
    }
  }

  #releaseEvent(call: UpstreamCall): void {
    if (this.#state !== "started") return;
    try {
      this.#write(this.#options.usage?.release() ?? nothing, call);
    } catch (error) {
      this.#options.owner.onFault(error);
    }
  }

  #start(): void {
    this.#finishHead(this.#headers);
    this.#options.downstream.exchange.start(this.#options.record.status, this.#headers);
    this.#state = "started";
  }

  /** Joins what has come, shows it to the usage reader, and returns what of it goes on. */
  #takeGathered(): Buffer {
    const [first] = this.#gathered;
    if (first === undefined) return nothing;
    const piece = this.#gathered.length === 1 ? first : Buffer.concat(this.#gathered);
    this.#gathered = [];
    this.#gatheredBytes = 0;
    const { usage } = this.#options;
    return usage === undefined ? piece : usage.push(piece);
  }

  #write(piece: Buffer, call: UpstreamCall): void {
    if (piece.length === 0) return;
    const { downstream, record, usage } = this.#options;
    record.responseBytes += piece.length;
    // The reader of the usage may keep parts.
    if (!downstream.exchange.write(piece, this.#isExclusive && usage === undefined)) call.pause();
  }

  /** Called when the usage has been read, where no other code would notice a failure. */
  #end(last: Buffer, trailers: string[], call: UpstreamCall): void {
    try {
      if (this.#state === "headHeld" && trailers.length === 0) this.#respond(last);
      else this.#endStream(last, trailers, call);
    } catch (error) {
      this.#options.owner.onFault(error);
    }
  }

  #respond(body: Buffer): void {
    const { downstream, record } = this.#options;
    record.responseBytes = body.length;
    if (this.#awaitsEnd) this.#options.reservation?.readState();
    this.#finishHead(this.#headers);
    downstream.exchange.forward(record.status, this.#headers, body);
    this.#state = "ended";
  }

  #endStream(last: Buffer, trailers: string[], call: UpstreamCall): void {
    if (this.#state === "headHeld") this.#start();
    if (this.#state !== "started") return;
    this.#write(last, call);
    this.#options.downstream.exchange.end(trailers);
    this.#state = "ended";
  }
}

function end(call: AttemptSpan | ProviderCall, clock: Clock, failure: string | undefined): void {
  call.endMs = clock.monotonicMs();
  call.failure = failure;
}

/** A separate function, so that not every response creates one. */
function release(relay: ResponseRelay, call: UpstreamCall): void {
  relay.release(call);
}

/** RFC 9110 §15.3.5, §15.3.6: what a backend sends behind such a head is no content. */
function isWithoutContent(status: number): boolean {
  return status === 204 || status === 205;
}

function nothingMore(): void {
  // The owner was notified by `abandon`.
}
