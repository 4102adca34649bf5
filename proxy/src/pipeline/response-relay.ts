/**
 * Forwards a response from the backend to the client. The bytes of one turn of the event loop, including the head, are sent in
 * one write at the end of that turn, at the pace of the client: a complete small response, or all events of a read, which
 * would otherwise cost a write each. The usage reader also gets the bytes, and the limits are charged before the client can see
 * the end, so that the next request sees the charge.
 */
import type { Duplex } from "node:stream";
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import type { HeaderEditor } from "../filters/header-edits.ts";
import type { UsageOutcome } from "../ir/usage.ts";
import { type ProviderTarget, generatesNothing } from "../llm/charging.ts";
import { type UsageEdit, UsageEventFilter } from "../llm/usage-event-filter.ts";
import {
  createUsageReader,
  type Ending,
  estimateOfRequest,
  mayBePlainEvents,
  type ResponseHead,
  type UsageReader,
} from "../llm/usage-reader.ts";
import type { FailureReason, RequestRecord } from "../telemetry/request-record.ts";
import type { ResponseSink, UpstreamCall } from "../upstream/call.ts";
import type { UpstreamFailure } from "../upstream/failure.ts";
import type { AbandonedResponse } from "./abandoned-responses.ts";
import type { RequestReservation } from "./request-reservation.ts";
import { fieldOf, removeField } from "./fields.ts";
import type { Downstream } from "../listen/downstream.ts";
import { joinTunnel } from "./tunnel.ts";

/** One attempt, and the request whose response it brings. */
export interface RelayOptions {
  /** Times the attempt, and waits for the end of a response. */
  readonly clock: Clock;
  /** Receives the response. */
  readonly downstream: Downstream;
  /** Gets the status, the bytes and the usage of the response. */
  readonly record: RequestRecord;
  /** The units that the request holds of its limits; undefined if it has no limits. */
  readonly admission: RequestReservation | undefined;
  /** Edits the flat header section in place; undefined if there is nothing to edit. */
  readonly editResponse: HeaderEditor | undefined;
  /** Whether tokens of the response are counted, for a limit or for the metrics. */
  readonly readsUsage: boolean;
  /** What becomes of the usage event of a stream, where it was asked for in the client's stead. */
  readonly usageEdit: UsageEdit | undefined;
  /** Whether the head shows the rest of a token limit to which the response is charged. */
  readonly reportsCharge: boolean;
  /** The request as it was sent. */
  readonly asked: ProviderTarget;
  /** Address of the client; an IPv6 address as its network. */
  readonly client: string;
  /** Decides whether the response is forwarded, and receives failures before its start. */
  readonly owner: RelayOwner;
}

/** The owner of a request, which can still use another call. */
export interface RelayOwner {
  /** Whether to forward a response with this head. If not, the call has been aborted. */
  acceptsStatus(status: number, headers: readonly string[]): boolean;
  /** The call failed before any part of its response was forwarded. */
  onUpstreamFailure(failure: UpstreamFailure): void;
  /** The backend has switched protocols, so there will be no response. */
  onSwitched(): void;
  /** Forwarding the response failed with an internal error. */
  onFault(error: unknown): void;
}

const nothing = Buffer.alloc(0);
/** Maximum time in which the end of a stream waits for its usage, and a head for the end of its response. */
const maxWaitMs = 1_000;
/** Maximum bytes of a response whose head waits for its end. */
const maxAwaitedBytes = 64 * 1024;
/** The highest that HTTP/2 can say by Node; HTTP/1.1 passes on what some sites make up. */
const maxHttp2Status = 599;

/** The response to one attempt. `settle` charges its cost once, whatever becomes of it. */
export class ResponseRelay implements ResponseSink {
  readonly #options: RelayOptions;
  /** When its call was made; monotonic. */
  readonly sentMs: number;
  #usage: UsageReader | undefined;
  #usageHead: UsageHead | undefined;
  #usageEvents: UsageEventFilter | undefined;
  #headers: string[] = [];
  /** The bytes of this turn of the event loop, or of the whole response if it waits for its end. */
  #gathered: Buffer[] = [];
  #gatheredBytes = 0;
  /** The head waits for the end of the response, to show the rest of the limit at that time. */
  #awaitsEnd = false;
  /** Of what waits, the head or an event. */
  #waitTimer: Timer | undefined;
  /** The event that `#waitTimer` is for. */
  #waitingEvent: object | undefined;
  /**
   * The state of the response towards the client.
   * - `awaitingHead`: no head has arrived. An accepted head moves it to `headHeld`, a switch of protocols to `ended`.
   * - `headHeld`: the head waits for the end of the turn, or of the response. Then it is sent alone (`started`) or with
   *   the complete body (`ended`).
   * - `started`: the head was sent. The end, a failure or `cutOff` move it to `ended`.
   * - `ended`: the client gets nothing more.
   * - `dropped`: the response is not forwarded: its status is retried, or it failed before `started`. Another attempt
   *   or a local reply follows.
   * - `abandoned`: `abandon` moves it here when the client has left. The response is only read for its usage.
   */
  #state: "awaitingHead" | "headHeld" | "started" | "ended" | "dropped" | "abandoned" = "awaitingHead";
  #abandoned: AbandonedResponse | undefined;
  #onAbandonedSettled: () => void = nothingMore;
  /** gRPC: a head with the status is the complete response. Its end follows, and must be in the frame of the head. */
  #isTrailersOnly = false;
  #isSettled = false;
  #onSettled: (() => void) | undefined;

  constructor(options: RelayOptions) {
    this.#options = options;
    this.sentMs = options.clock.monotonicMs();
  }

  onInterimHead(status: number, headers: string[]): void {
    if (this.#state === "awaitingHead") this.#options.downstream.inform(status, headers);
  }

  onHead(status: number, headers: string[], call: UpstreamCall): void {
    const { readsUsage, usageEdit, reportsCharge, owner, downstream } = this.#options;
    if (this.#state === "abandoned") {
      this.#readUsage(status, headers);
      return;
    }
    if (status > maxHttp2Status && downstream.httpVersion === "2") {
      call.abort();
      this.onFailure({ kind: "reset", message: `HTTP/2 has no status ${status}` }, call);
      return;
    }
    if (!owner.acceptsStatus(status, headers)) {
      this.#state = "dropped";
      return;
    }
    if (isWithoutContent(status)) removeField(headers, "content-length");
    // RFC 9110 §15.3.6; a 204 has no length (§8.6).
    if (status === 205) headers.push("content-length", "0");
    if (readsUsage || usageEdit !== undefined) this.#readUsage(status, headers);
    this.#begin(status, call);
    this.#headers = headers;
    this.#state = "headHeld";
    this.#isTrailersOnly = fieldOf(headers, "grpc-status") !== undefined;
    this.#awaitsEnd = reportsCharge && status < 400 && isJson(headers);
    if (!this.#isTrailersOnly) process.nextTick(release, this, call);
  }

  onUpgrade(headers: string[], connection: Duplex, call: UpstreamCall): void {
    const { record, downstream, owner } = this.#options;
    if (this.#state === "abandoned") {
      connection.destroy();
      return;
    }
    owner.onSwitched();
    // HTTP/2 says with 200 what HTTP/1.1 says with 101 (RFC 8441 §5).
    this.#begin(downstream.httpVersion === "2" ? 200 : 101, call);
    this.#finishHead(headers);
    try {
      const client = downstream.switchProtocols(headers);
      this.#state = "ended";
      connection.once("close", () => {
        if (call.isDisplaced) record.reason ??= "BackendOverloaded";
      });
      joinTunnel(client, connection, record, () => {
        record.reason ??= "UpstreamReset";
      });
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
    const { record, admission, editResponse } = this.#options;
    // Before the headers, so that they include a refund of the policy.
    if (record.status >= 500) admission?.refund("BackendError");
    admission?.setHeaders(headers);
    editResponse?.(headers);
  }

  onData(chunk: Buffer, call: UpstreamCall): void {
    if (this.#state === "abandoned") {
      this.#usage?.push(chunk);
      this.#abandoned?.countBytes(chunk.length);
      return;
    }
    if (this.#state !== "headHeld" && this.#state !== "started") return;
    if (isWithoutContent(this.#options.record.status)) return;
    this.#gathered.push(chunk);
    this.#gatheredBytes += chunk.length;
    const isScheduled = this.#state === "headHeld" && !this.#isTrailersOnly;
    if (!isScheduled && this.#gathered.length === 1) process.nextTick(release, this, call);
    if (this.#awaitsEnd && this.#gatheredBytes > maxAwaitedBytes) this.#awaitNoMore(call);
  }

  #awaitNoMore(call: UpstreamCall): void {
    this.#awaitsEnd = false;
    this.#waitTimer?.cancel();
    process.nextTick(release, this, call);
  }

  onEnd(trailers: string[], call: UpstreamCall): void {
    if (this.#state === "abandoned") {
      this.#endAbandoned("whole");
      return;
    }
    const piece = this.#takeGathered();
    const rest = this.#usageEvents?.end() ?? nothing;
    const last = rest.length === 0 ? piece : Buffer.concat([piece, rest]);
    this.settle("whole", () => this.#end(last, trailers, call));
  }

  onFailure(failure: UpstreamFailure, call: UpstreamCall): void {
    const { record, downstream, owner } = this.#options;
    if (this.#state === "abandoned") {
      // A failure before the start of the response has no known cost.
      this.#endAbandoned(this.#usage === undefined && failure.kind !== "timeout" ? "whole" : "cutShort");
      return;
    }
    // Its head and a part of it have come, and would have been passed on.
    if (this.#state === "headHeld" && this.#awaitsEnd && this.#waitTimer !== undefined) this.#start();
    if (this.#state !== "started") {
      this.#state = "dropped";
      record.status = 0;
      this.#usage = undefined;
      owner.onUpstreamFailure(failure);
      return;
    }
    record.reason ??= failure.kind === "timeout" ? "UpstreamTimeout" : "UpstreamReset";
    this.#write(this.#takeGathered(), call);
    this.#write(this.#usageEvents?.end() ?? nothing, call);
    this.#state = "ended";
    this.settle("cutShort", () => {
      downstream.reset();
    });
  }

  onFault(error: unknown): void {
    this.#options.owner.onFault(error);
  }

  /** The client has left: the rest of the response is only read for its usage. `done` is called when it is charged. */
  abandon(read: AbandonedResponse, done: () => void): void {
    this.#takeGathered();
    this.#onAbandonedSettled = done;
    this.#usageEvents = undefined;
    this.#waitTimer?.cancel();
    this.#abandoned = read;
    this.#state = "abandoned";
  }

  #endAbandoned(ending: Ending): void {
    this.settle(ending, nothingMore);
    this.#abandoned?.end();
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
      const rest = Buffer.concat([this.#takeGathered(), this.#usageEvents?.end() ?? nothing]);
      record.responseBytes += rest.length;
      if (rest.length > 0) downstream.write(rest);
    }
    this.#state = "ended";
    this.settle("cutShort", () => {
      downstream.reset();
    });
    return true;
  }

  /** Whether the response to the client is incomplete. */
  get isInProgress(): boolean {
    return this.#state === "awaitingHead" || this.#state === "headHeld" || this.#state === "started";
  }

  /**
   * Determines the cost of the response and charges it, once. `done` is called afterwards, immediately if possible.
   *
   * @param ending `cutShort` if the backend was interrupted: then an unreported usage is estimated, from the request alone
   *   if no response has started.
   */
  settle(ending: Ending, done: () => void): void {
    if (this.#isSettled) {
      done();
      return;
    }
    if (this.#onSettled !== undefined) {
      this.#onSettled = both(this.#onSettled, done);
      return;
    }
    this.#onSettled = done;
    this.#waitTimer?.cancel();
    // The rest for a client that has left was used nevertheless. After the end of a response there is none.
    this.#takeGathered();
    // The rest of the request may have been sent after the head had come.
    if (this.#usageHead !== undefined) this.#usageHead.requestBytes = bytesForEstimate(this.#options.record);
    if (this.#usage === undefined) this.#conclude(ending === "cutShort" ? this.#unanswered() : undefined);
    else this.#usage.end(ending, (outcome) => this.#conclude(outcome));
  }

  #unanswered(): UsageOutcome | undefined {
    const { readsUsage, record, asked } = this.#options;
    if (!readsUsage || record.requestBytes === 0 || generatesNothing(asked.path)) return undefined;
    return estimateOfRequest(bytesForEstimate(record));
  }

  #readUsage(status: number, headers: string[]): void {
    const { record, asked, client, usageEdit } = this.#options;
    const head = { ...usageHead(status, headers, bytesForEstimate(record), asked), client };
    this.#usage = createUsageReader(head);
    this.#usageHead = head;
    if (usageEdit === undefined || !mayBePlainEvents(head)) return;
    this.#usageEvents = new UsageEventFilter(usageEdit);
    // The stream gets shorter, or longer.
    removeField(headers, "content-length");
  }

  #conclude(outcome: UsageOutcome | undefined): void {
    const { record, admission } = this.#options;
    this.#isSettled = true;
    if (outcome?.kind === "counted") {
      record.usage = outcome.usage;
      admission?.charge(outcome.usage);
    } else if (outcome !== undefined) {
      record.usageUnread = outcome.reason;
    }
    this.#onSettled?.();
    this.#onSettled = undefined;
    this.#onAbandonedSettled();
  }

  /** Forwards the bytes of this turn, after the head if it is still held, unless the response is complete. */
  release(call: UpstreamCall): void {
    if (this.#isSettled || (this.#state !== "headHeld" && this.#state !== "started")) return;
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
    const waiting = this.#usageEvents?.pending;
    if (waiting === this.#waitingEvent) return;
    this.#waitTimer?.cancel();
    this.#waitingEvent = waiting;
    if (waiting !== undefined) {
      this.#waitTimer = this.#options.clock.setTimer(maxWaitMs, () => this.#releaseEvent(call));
    }
  }

  #releaseEvent(call: UpstreamCall): void {
    if (this.#isSettled || this.#state !== "started") return;
    try {
      this.#write(this.#usageEvents?.release() ?? nothing, call);
    } catch (error) {
      this.#options.owner.onFault(error);
    }
  }

  #start(): void {
    this.#finishHead(this.#headers);
    this.#options.downstream.start(this.#options.record.status, this.#headers);
    this.#state = "started";
  }

  /** Joins what has come, shows it to the usage reader, and returns what of it goes on. */
  #takeGathered(): Buffer {
    const [first] = this.#gathered;
    if (first === undefined) return nothing;
    const piece = this.#gathered.length === 1 ? first : Buffer.concat(this.#gathered);
    this.#gathered = [];
    this.#gatheredBytes = 0;
    this.#usage?.push(piece);
    return this.#usageEvents === undefined ? piece : this.#usageEvents.push(piece);
  }

  #write(piece: Buffer, call: UpstreamCall): void {
    if (piece.length === 0) return;
    this.#options.record.responseBytes += piece.length;
    if (!this.#options.downstream.write(piece)) call.pause();
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
    if (this.#awaitsEnd) this.#options.admission?.readState();
    this.#finishHead(this.#headers);
    downstream.forward(record.status, this.#headers, body);
    this.#state = "ended";
  }

  #endStream(last: Buffer, trailers: string[], call: UpstreamCall): void {
    if (this.#state === "headHeld") this.#start();
    if (this.#state !== "started") return;
    this.#write(last, call);
    this.#options.downstream.end(trailers);
    this.#state = "ended";
  }
}

/** A separate function, so that not every response creates one. */
function release(relay: ResponseRelay, call: UpstreamCall): void {
  relay.release(call);
}

function both(first: () => void, second: () => void): () => void {
  return () => {
    first();
    second();
  };
}

function nothingMore(): void {
  // Only the cost of the response is needed.
}

interface UsageHead extends ResponseHead {
  requestBytes: number;
}

/** Of the request, with a token for each id of one. */
function bytesForEstimate({ requestBytes, missingIdBytes }: RequestRecord): number {
  return requestBytes + missingIdBytes;
}

function usageHead(status: number, headers: readonly string[], requestBytes: number, asked: ProviderTarget): UsageHead {
  const contentType = fieldOf(headers, "content-type");
  const contentEncoding = fieldOf(headers, "content-encoding");
  return {
    status,
    requestBytes,
    target: asked,
    ...(contentType !== undefined && { contentType }),
    ...(contentEncoding !== undefined && { contentEncoding }),
  };
}

/** A whole JSON text, which no client can use before its end. */
function isJson(headers: readonly string[]): boolean {
  return /^\s*application\/(?:[\w.-]+\+)?json\b/i.test(fieldOf(headers, "content-type") ?? "");
}

/** RFC 9110 §15.3.5, §15.3.6: what a backend sends behind such a head is no content. */
function isWithoutContent(status: number): boolean {
  return status === 204 || status === 205;
}
