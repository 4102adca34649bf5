/** One request over HTTP/2, and the response to it (RFC 9113 §8), as a `ClientExchange`. */
import { createHash } from "node:crypto";
import type { Clock } from "@gatewayproxy/runtime/clock";
import type {
  BodyReceiver,
  ClientExchange,
  ClientExchangeEvents,
  ClientFailure,
  ClientRequest,
  FieldList,
} from "../../ports.ts";
import { sweepMs } from "../../sweep.ts";
import { releaseMemory } from "../../exclusive-bytes.ts";
import { Upload, type UploadOwner } from "../../upload.ts";
import { BodyDelivery, type DeliveryOwner } from "../body-delivery.ts";
import { ExchangeTunnel, type TunnelExchange } from "../exchange-tunnel.ts";
import { ErrorCode } from "../frame.ts";
import { areOrdinary } from "../ordinary-fields.ts";
import { outgoingFields } from "../outgoing-fields.ts";
import { type ClientHost, ClientStream } from "./client-stream.ts";
import { requestFields } from "./request-fields.ts";
import type { ResponseHead } from "./response-block.ts";

/** The events of an exchange over HTTP/2. */
export interface Http2ExchangeEvents extends ClientExchangeEvents {
  /** Called when the head of the request is written, at most once. It may be called within `send`. */
  onSent(): void;
}

/** The parameters of an exchange. */
export interface ExchangeOptions {
  readonly request: ClientRequest;
  readonly scheme: "http" | "https";
  /** Maximum time without progress in either direction, in milliseconds; 0 is unlimited. */
  readonly idleTimeoutMs: number;
  readonly events: Http2ExchangeEvents;
  /** Times tunnels. */
  readonly clock: Clock;
}

const noBytes = Buffer.alloc(0);
const noFields: FieldList = [];

/** The codes by which a server says that it does not accept what a stream, or a connection, has brought. */
const rejections: ReadonlySet<number> = new Set([
  ErrorCode.ProtocolError,
  ErrorCode.FlowControlError,
  ErrorCode.StreamClosed,
  ErrorCode.FrameSizeError,
  ErrorCode.EnhanceYourCalm,
  ErrorCode.Http11Required,
]);

/** A request and its response. Buffered bytes of the response are still delivered after the end of the stream. */
export class Http2ClientExchange
  extends ClientStream<ResponseHead>
  implements ClientExchange, BodyReceiver, DeliveryOwner, UploadOwner, TunnelExchange
{
  readonly #events: Http2ExchangeEvents;
  readonly #method: string;
  readonly #asksForTunnel: boolean;
  readonly #client: string | undefined;
  readonly #webSocketKey: string | undefined;
  readonly #clock: Clock;
  readonly #delivery: BodyDelivery;
  readonly #uploadLength: number | undefined;
  /** The part of `ClientHost.announcedBytes` of this request. */
  #announcedBytes = 0;
  /** The head and the body, until they are sent. */
  #head: FieldList;
  #body: ClientRequest["body"];
  #upload: Upload | undefined;
  #tunnel: ExchangeTunnel | undefined;
  #trailers: FieldList = noFields;
  /** Whether the last event has been emitted. */
  #isOver = false;
  readonly #maxSweeps: number;
  /** Sweeps since the last progress. */
  #sweeps = 0;
  /** Bytes of the request that waited for the server at the last sweep. */
  #waitingAtSweep = 0;

  /** @throws `TypeError` for a request that is not valid in HTTP/2. */
  constructor({ request, scheme, idleTimeoutMs, events, clock }: ExchangeOptions) {
    super();
    const { fields, bodyLength, webSocketKey } = requestFields(request, scheme);
    this.#events = events;
    this.#method = request.method;
    this.#asksForTunnel = request.upgrade !== undefined;
    this.#client = request.client;
    this.#webSocketKey = webSocketKey;
    this.#clock = clock;
    this.#delivery = new BodyDelivery(this);
    this.#uploadLength = bodyLength;
    this.#head = fields;
    this.#body = request.body;
    this.#maxSweeps = Math.ceil(idleTimeoutMs / sweepMs);
  }

  // The methods for the receiver.

  get bufferedBytes(): number {
    return this.#delivery.bufferedBytes;
  }

  pause(): void {
    if (!this.#isOver) this.#delivery.pause();
  }

  resume(): void {
    if (this.#isOver) return;
    this.#sweeps = 0;
    this.#delivery.resume();
  }

  abort(): void {
    if (this.#isOver) return;
    this.reset(ErrorCode.Cancel);
    this.#end(false);
  }

  // The events of the stream.

  opened(host: ClientHost): void {
    const head = this.#head;
    const body = this.#body;
    this.#head = noFields;
    this.#body = undefined;
    const mayUpload = this.#asksForTunnel || body !== undefined;
    if (mayUpload) host.joinShare(this, this.#client);
    if (this.#asksForTunnel) {
      host.writer.headers(this.id, head, false);
    } else if (body === undefined || (Buffer.isBuffer(body) && body.length === 0)) {
      host.writer.headers(this.id, head, true);
      this.onOutputEnd();
    } else {
      host.writer.headers(this.id, head, false);
      if (Buffer.isBuffer(body)) {
        this.writeData(host, body, true);
      } else {
        this.#upload = new Upload(body, this.#uploadLength, this);
        this.#announce(host, this.#uploadLength ?? 0);
        process.nextTick(startUpload, this.#upload);
      }
    }
    this.#events.onSent();
  }

  override receivedInterimHead({ fields }: ResponseHead, status: number): void {
    this.#sweeps = 0;
    this.#events.onInterimHead(status, fields);
  }

  receivedHead({ fields }: ResponseHead, status: number): void {
    this.#sweeps = 0;
    if (this.#opensTunnel(status)) {
      this.#switch(fields);
    } else {
      this.#delivery.read(this);
      this.#events.onHead(status, fields);
    }
  }

  override bodyLength(status: number, announced: number | undefined): number | undefined {
    if (this.#method === "HEAD") return 0;
    return this.#opensTunnel(status) ? undefined : super.bodyLength(status, announced);
  }

  #opensTunnel(status: number): boolean {
    return this.#asksForTunnel && status < 300;
  }

  /** Delivers a copy: the next read of the connection overwrites the buffer. */
  data(buffer: Buffer, start: number, end: number): void {
    this.#sweeps = 0;
    this.#delivery.data(Buffer.from(buffer.subarray(start, end)));
  }

  receivedTrailers({ fields }: ResponseHead): void {
    this.#trailers = fields;
  }

  completed(): void {
    if (!this.isTunnel) this.#endStream();
    else if (this.hasSentEnd) this.#end(false);
    this.#delivery.end(this.#trailers);
  }

  protected override onOutputEnd(): void {
    super.onOutputEnd();
    if (this.#tunnel === undefined) return;
    if (this.isInputComplete) this.#end(false);
    this.#tunnel.onWritten();
  }

  protected override onFlowing(): void {
    this.#sweeps = 0;
    this.#upload?.onDrain();
    this.#tunnel?.onDrain();
  }

  malformed(reason: string): void {
    this.#fail({ kind: "reset", message: `malformed response: ${reason}` });
  }

  wasReset(code: number): void {
    const message = `the server has reset the stream with error code ${code}`;
    const isExhausted = code === ErrorCode.EnhanceYourCalm && !this.hasHead;
    this.#fail({ kind: "reset", message, isRejected: rejections.has(code), ...(isExhausted && { isExhausted }) });
  }

  unprocessed(reason: string, isStreamRejected = false): void {
    const failure = { kind: "unprocessed", message: reason, ...(isStreamRejected && { isStreamRejected }) } as const;
    // Events do not begin while the request is being sent.
    if (this.host === undefined) process.nextTick(failLater, this, failure);
    else this.#fail(failure);
  }

  connectionLost(reason: string, code: number | undefined): void {
    const hasFailed = code !== undefined && code !== ErrorCode.NoError;
    const isUpload = !this.hasSentEnd;
    const isRejected = hasFailed && (isUpload || rejections.has(code));
    this.#fail({
      kind: "reset",
      message: reason,
      ...(isRejected && { isRejected }),
      ...(hasFailed && { isUpload }),
    });
  }

  override notRead(reason: string): void {
    this.#fail({ kind: "timeout", message: reason, isRejected: true });
  }

  override sweep(): void {
    if (this.#maxSweeps === 0 || this.isTunnel) return;
    this.#sweeps = this.#awaitsOthers || this.waitingBytes !== this.#waitingAtSweep ? 0 : this.#sweeps + 1;
    this.#waitingAtSweep = this.waitingBytes;
    if (this.#sweeps <= this.#maxSweeps) return;
    const message = `the server has sent nothing for ${this.#maxSweeps * sweepMs} ms`;
    this.#fail({ kind: "timeout", message }, true);
  }

  /** Whether the receiver of the response has paused it, or the source of the body has nothing to send. */
  get #awaitsOthers(): boolean {
    return this.#delivery.isPaused || (this.#upload?.isOver === false && !this.isWaiting);
  }

  // The methods for the upload.

  sendBody(bytes: Buffer, isExclusive: boolean): boolean {
    this.#sweeps = 0;
    if (this.host !== undefined && this.isOpen) {
      this.#announce(this.host, -Math.min(bytes.length, this.#announcedBytes));
      this.writeData(this.host, bytes, false);
    }
    // Bytes that do not wait have been copied into frames.
    if (isExclusive && !this.isWaiting) releaseMemory(bytes);
    return !this.isWaiting;
  }

  endBody(trailers: FieldList): void {
    if (this.host === undefined || !this.isOpen) return;
    if (trailers.length === 0) this.writeData(this.host, noBytes, true);
    else this.#endWithTrailers(this.host, trailers);
  }

  #endWithTrailers(host: ClientHost, trailers: FieldList): void {
    let fields: FieldList;
    try {
      fields = outgoingFields(trailers);
      if (!areOrdinary(fields)) throw new RangeError("servers may end the connection for them");
    } catch (error) {
      this.onUploadFailed("aborted", `the trailers of the request cannot be sent: ${String(error)}`);
      return;
    }
    this.writeTrailers(host, fields);
  }

  onUploadFailed(kind: "aborted" | "reset", message: string): void {
    this.reset(ErrorCode.Cancel);
    this.#fail({ kind, message });
  }

  // The delivery of the response.

  hold(bytes: number): void {
    if (this.host !== undefined) this.holdInput(this.host, bytes);
  }

  release(): void {
    if (this.host === undefined) return;
    this.releaseInput(this.host);
    this.host.refillStream(this);
  }

  onDelivered(): void {
    // The stream has ended before.
  }

  onData(bytes: Buffer, isExclusive = false): void {
    this.#events.onData(bytes, isExclusive);
  }

  onEnd(trailers: FieldList): void {
    this.#isOver = true;
    this.#events.onEnd(trailers);
  }

  onAborted(): void {
    // The failure is reported by `onFailure`.
  }

  // The tunnel after a switch of protocols.

  #switch(fields: FieldList): void {
    this.isTunnel = true;
    this.#tunnel = new ExchangeTunnel(this, this.#clock);
    this.#events.onSwitched(this.#switchedFields(fields), this.#tunnel);
  }

  /** Adds `sec-websocket-accept`: a client of HTTP/1 expects the proof that its key was read (RFC 6455 §4.2.2). */
  #switchedFields(fields: FieldList): FieldList {
    if (this.#webSocketKey === undefined) return fields;
    const accept = createHash("sha1").update(`${this.#webSocketKey}${webSocketGuid}`).digest("base64");
    return [...fields, "sec-websocket-accept", accept];
  }

  read(receiver: BodyReceiver): void {
    this.#delivery.read(receiver);
  }

  writeTunnel(bytes: Buffer): boolean {
    return this.sendBody(bytes, false);
  }

  endTunnel(): void {
    this.endBody(noFields);
  }

  closeTunnel(): void {
    this.abort();
  }

  // The end.

  /** Called after `send`. */
  failNow(failure: ClientFailure): void {
    this.#fail(failure);
  }

  #fail(failure: ClientFailure, hasTimedOut = false): void {
    if (this.#isOver) return;
    const tunnel = this.#tunnel;
    this.#end(hasTimedOut);
    if (tunnel === undefined) this.#events.onFailure(failure);
    else tunnel.destroy();
  }

  /** Ends the stream, and all events. */
  #end(hasTimedOut: boolean): void {
    this.#isOver = true;
    if (!this.isTunnel || !this.isInputComplete) this.#delivery.stop();
    this.#endStream(hasTimedOut);
  }

  /** Ends the stream, and the request if it was not sent completely. */
  #endStream(hasTimedOut = false): void {
    this.host?.ended(this, hasTimedOut);
    this.#upload?.cancel();
    const body = this.#body;
    this.#body = undefined;
    if (body !== undefined && !Buffer.isBuffer(body)) body.cancel();
  }

  override close(host: ClientHost): void {
    super.close(host);
    this.#head = noFields;
    this.#announce(host, -this.#announcedBytes);
  }

  #announce(host: ClientHost, bytes: number): void {
    this.#announcedBytes += bytes;
    host.announcedBytes += bytes;
  }
}

/** RFC 6455 §1.3 */
const webSocketGuid = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/** Named functions for `process.nextTick`, so that a request allocates no closures. */
function startUpload(upload: Upload): void {
  upload.start();
}

function failLater(exchange: Http2ClientExchange, failure: ClientFailure): void {
  exchange.failNow(failure);
}
