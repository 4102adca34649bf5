/** One request of an HTTP/2 connection, and the response to it (RFC 9113 §8). */
import type { Clock } from "@gatewayproxy/runtime/clock";
import type {
  BodyReceiver,
  FieldList,
  IncomingBody,
  ServerExchange,
  ServerExchangeEvents,
  SwitchedStream,
} from "../../ports.ts";
import { releaseMemory } from "../../exclusive-bytes.ts";
import { BodyDelivery, type DeliveryOwner } from "../body-delivery.ts";
import { ExchangeTunnel, type TunnelExchange } from "../exchange-tunnel.ts";
import { ErrorCode } from "../frame.ts";
import { interimHeadFields, outgoingFields, responseHeadFields } from "../outgoing-fields.ts";
import type { RequestHead } from "./request-head.ts";
import type { ServerStream, StreamReceiver } from "./server-stream.ts";

/** The progress of the response. `closed`: the exchange has ended. */
type ResponseState = "awaited" | "started" | "ended" | "switched" | "closed";

/** Bytes of a response that may wait for the client before `write` returns false. */
const maxWaitingBytes = 65_536;
const noBytes = Buffer.alloc(0);
const noFields: FieldList = [];

/** A request and its response. */
export class Http2Exchange implements ServerExchange, StreamReceiver, IncomingBody, TunnelExchange, DeliveryOwner {
  readonly httpVersion = "2";
  readonly head: RequestHead;
  readonly #stream: ServerStream;
  readonly #clock: Clock;
  #state: ResponseState = "awaited";
  #events: ServerExchangeEvents | undefined;
  /** The delivery of the body, or of the bytes after a switch of protocols. */
  readonly #delivery: BodyDelivery;
  #awaitsContinue: boolean;
  #tunnel: ExchangeTunnel | undefined;
  /** Whether the end of this side of the tunnel has been passed to the kernel. */
  #isTunnelWritten = false;

  /** @param hasBody false if the request ends with its head. */
  constructor(stream: ServerStream, head: RequestHead, hasBody: boolean, clock: Clock) {
    this.#stream = stream;
    this.head = head;
    this.#clock = clock;
    this.#delivery = new BodyDelivery(this, hasBody);
    this.#awaitsContinue = hasBody && head.awaitsContinue;
  }

  /** Sets the receiver of the events. */
  listen(events: ServerExchangeEvents | undefined): void {
    this.#events = events;
  }

  get body(): IncomingBody | undefined {
    return this.isReceiving && this.head.protocol === undefined ? this : undefined;
  }

  get isReceiving(): boolean {
    return this.#delivery.isOpen;
  }

  get waitingBytes(): number {
    return this.#stream.waitingBytes;
  }

  get unreadBytes(): number {
    // The bytes that wait for the window of the stream are more precise than those that all streams have written.
    return this.#stream.isWaiting ? this.#stream.waitingBytes : this.#stream.unsentBytes;
  }

  // The response.

  respond(status: number, fields: readonly string[], body: Buffer | string): void {
    if (!this.#begins()) return;
    const head = responseHeadFields(status, fields, this.#clock.nowMs());
    this.#state = "ended";
    if (body.length === 0 || !this.#mayHaveBody(status)) {
      this.#stream.respondHeadersOnly(head);
    } else {
      this.#stream.sendHeaders(head);
      this.#stream.sendData(typeof body === "string" ? Buffer.from(body) : body, true);
    }
  }

  forward(status: number, fields: readonly string[], body: Buffer): void {
    this.respond(status, fields, body);
  }

  inform(status: number, fields: readonly string[]): void {
    if (this.#state === "awaited") this.#stream.sendHeaders(interimHeadFields(status, fields));
  }

  start(status: number, fields: readonly string[]): void {
    if (!this.#begins()) return;
    const head = responseHeadFields(status, fields, this.#clock.nowMs());
    if (this.#mayHaveBody(status)) {
      this.#state = "started";
      this.#stream.sendHeaders(head);
    } else {
      this.#state = "ended";
      this.#stream.respondHeadersOnly(head);
    }
  }

  write(bytes: Buffer, isExclusive = false): boolean {
    if (this.#state !== "started" || bytes.length === 0) return true;
    this.#stream.sendData(bytes);
    // Bytes that do not wait have been copied into frames.
    if (isExclusive && !this.#stream.isWaiting) releaseMemory(bytes);
    return this.#stream.waitingBytes < maxWaitingBytes;
  }

  end(trailers: FieldList): void {
    if (this.#state !== "started") return;
    this.#state = "ended";
    if (trailers.length === 0) this.#stream.sendData(noBytes, true);
    else this.#stream.finish(outgoingFields(trailers));
  }

  /**
   * Rejects a request. The message is omitted if the client's window does not permit it, so that no bytes wait for a
   * client that does not read.
   */
  reject({ status, message }: { readonly status: number; readonly message: string }): void {
    const body = `${message}\n`;
    this.respond(status, ["content-type", "text/plain"], this.#stream.canSend(body.length) ? body : "");
  }

  switchProtocols(_protocol: string, fields: readonly string[]): SwitchedStream {
    if (this.#state !== "awaited") throw new Error("a response has been sent instead of the switch of protocols");
    // The field proves to an HTTP/1 client that its key was read. HTTP/2 uses neither (RFC 8441 §5).
    const kept = fields.filter((_, at) => fields[at - (at % 2)]?.toLowerCase() !== "sec-websocket-accept");
    this.#stream.isTunnel = true;
    this.#stream.sendHeaders(responseHeadFields(200, kept, this.#clock.nowMs()));
    this.#state = "switched";
    this.#tunnel = new ExchangeTunnel(this, this.#clock);
    return this.#tunnel;
  }

  reset(): void {
    if (this.#state === "closed") return;
    this.#stream.reset(ErrorCode.InternalError);
    process.nextTick(closeAborted, this);
  }

  // The tunnel after a switch of protocols.

  writeTunnel(bytes: Buffer): boolean {
    this.#stream.sendData(bytes);
    return !this.#stream.isWaiting;
  }

  endTunnel(): void {
    this.#stream.sendData(noBytes, true);
  }

  closeTunnel(): void {
    if (!this.#isTunnelWritten) {
      this.reset();
    } else if (this.#state !== "closed") {
      this.#stream.reset(ErrorCode.NoError);
      process.nextTick(closeCompleted, this);
    }
  }

  // The body of the request.

  get isPaused(): boolean {
    return this.#delivery.isPaused;
  }

  read(receiver: BodyReceiver): void {
    if (this.#awaitsContinue) {
      this.#awaitsContinue = false;
      this.inform(100, noFields);
    }
    this.#delivery.read(receiver);
  }

  pause(): void {
    this.#delivery.pause();
  }

  resume(): void {
    this.#delivery.resume();
  }

  hold(bytes: number): void {
    this.#stream.hold(bytes);
  }

  release(): void {
    this.#stream.release();
  }

  onDelivered(): void {
    if (this.#isTunnelWritten) this.close(true);
  }

  // The events of the stream.

  data(chunk: Buffer, isLast: boolean, trailers: FieldList): void {
    if (chunk.length > 0) this.#delivery.data(chunk);
    if (isLast) this.#delivery.end(trailers);
  }

  trailersTooLarge(): void {
    this.#events?.onBodyRejected(431, "trailers too large");
    this.#delivery.abort();
  }

  flowing(): void {
    if (this.#tunnel !== undefined) this.#tunnel.onDrain();
    else if (this.#state === "started") this.#events?.onDrain();
  }

  written(): void {
    if (this.#tunnel === undefined) {
      this.close(true);
      return;
    }
    this.#isTunnelWritten = true;
    this.#tunnel.onWritten();
    if (!this.isReceiving) this.close(true);
  }

  cancel(): void {
    this.#stream.reset(ErrorCode.Cancel);
    this.close(false);
  }

  /** Ends the exchange. @param completed whether the whole response has been passed to the kernel. */
  close(completed: boolean): void {
    if (this.#state === "closed") return;
    this.#state = "closed";
    this.#delivery.abort();
    this.#tunnel?.destroy();
    this.#events?.onClose(completed);
  }

  /** @returns false after the client has disconnected. */
  #begins(): boolean {
    if (this.#state === "closed") return false;
    if (this.#state !== "awaited") throw new Error("a request has one response");
    return true;
  }

  /** RFC 9110 §6.4.1 */
  #mayHaveBody(status: number): boolean {
    return this.head.method !== "HEAD" && status !== 204 && status !== 304;
  }
}

/** Named functions for `process.nextTick`, so that a call allocates no closures. */
function closeCompleted(exchange: Http2Exchange): void {
  exchange.close(true);
}

function closeAborted(exchange: Http2Exchange): void {
  exchange.close(false);
}
