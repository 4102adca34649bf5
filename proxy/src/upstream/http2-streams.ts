/**
 * How a call is aborted in HTTP/2. undici closes its stream: without a code if the call is aborted, with REFUSED_STREAM if the
 * endpoint leaves (GOAWAY), and then ignores it. Node delays such a reset until the body has been sent. If the body waits for
 * the flow-control window of the endpoint, Node creates empty frames forever and uses all memory (observed with Node 26.10 and
 * undici 8.12). A stream that is destroyed with Node's own AbortError, without closing it before, is reset immediately with
 * CANCEL (RFC 9113 §7).
 *
 * This module also detects requests that an endpoint has not processed (RFC 9113 §8.7): it rejected the stream, or left
 * (GOAWAY) without accepting it. undici would send such a request again by itself, and after a failure of the next connection
 * perhaps others too. The owner of the call is notified instead, and retries.
 */
import { subscribe } from "node:diagnostics_channel";
import { type ClientHttp2Stream, constants, type Http2Session, type IncomingHttpHeaders } from "node:http2";
import { addAbortSignal, type Readable } from "node:stream";

/** The owner of a stream. */
export interface StreamOwner {
  /** The endpoint has not processed the request, so it can be sent to another one, whatever its method. */
  onUnprocessed(): void;
  /** An interim response (1xx) has arrived. @param headers by name, in lower case. */
  onInterimHead(status: number, headers: IncomingHttpHeaders): void;
}

interface OwnedStream extends ClientHttp2Stream {
  [ownerKey]?: StreamOwner | undefined;
}

interface WatchedSession extends Http2Session {
  /** The last stream that its endpoint may have accepted; unbounded until it leaves (GOAWAY). */
  [lastTakenKey]?: number;
}

const ownerKey = Symbol("owner");
const lastTakenKey = Symbol("last taken");
/** RFC 9113 §6.2 */
const headersFrame = 0x1;

/** The owner of a request that is being started, until its stream exists. */
let beginning: StreamOwner | undefined;

/** Sets the owner of the stream that is opened next, in the same turn. */
export function beginStream(owner: StreamOwner): void {
  beginning = owner;
  // If the connection breaks at this moment, no stream is opened, and that of another client must not get this owner.
  queueMicrotask(endBeginning);
}

function endBeginning(): void {
  beginning = undefined;
}

/** The message of Node for each stream that a client opens. */
interface StreamCreated {
  readonly stream: OwnedStream;
}

/**
 * Resets every HTTP/2 stream of this thread immediately when its client closes it, prevents that an error ends the thread, and
 * notifies owners. To be called once.
 */
export function watchStreams(): void {
  subscribe("http2.client.stream.created", (message) => {
    // The type in Node's documentation of the channel.
    const { stream } = message as StreamCreated;
    stream[ownerKey] = beginning;
    beginning = undefined;
    watchSession(stream.session);
    // undici listens later, and only while a call needs the stream. An error of the connection may follow.
    stream.on("error", onError);
    stream.on("frameError", onFrameError);
    stream.on("headers", onInterimHead);
    stream.close = resetAtOnce;
  });
}

/**
 * Destroys a stream, or its source, so that the endpoint gets CANCEL. This is the only way to get Node's own AbortError. Any
 * other error, even with the same name, is sent as INTERNAL_ERROR.
 */
export function abandon(stream: Readable | ClientHttp2Stream): void {
  addAbortSignal(abandoned, stream);
}

const abandoned = AbortSignal.abort();

function watchSession(session: WatchedSession | undefined): void {
  if (session === undefined || session[lastTakenKey] !== undefined) return;
  session[lastTakenKey] = Number.POSITIVE_INFINITY;
  // Before undici, which drops streams when it is notified.
  session.prependListener("goaway", onGoaway);
}

function onGoaway(this: WatchedSession, _code: number, lastStream: number): void {
  this[lastTakenKey] = lastStream;
}

/** @param code REFUSED_STREAM if an endpoint leaves and undici drops streams that it has not accepted, and sometimes others. */
function resetAtOnce(this: OwnedStream, code?: number): void {
  if (code === constants.NGHTTP2_REFUSED_STREAM && !wasTaken(this)) this[ownerKey]?.onUnprocessed();
  abandon(this);
}

function wasTaken({ id, session }: OwnedStream): boolean {
  const watched: WatchedSession | undefined = session;
  return id !== undefined && id <= (watched?.[lastTakenKey] ?? Number.POSITIVE_INFINITY);
}

/** The user of the stream handles all other errors. */
function onError(this: OwnedStream): void {
  if (this.rstCode === constants.NGHTTP2_REFUSED_STREAM) this[ownerKey]?.onUnprocessed();
}

/** The final head has its own event. */
function onInterimHead(this: OwnedStream, headers: IncomingHttpHeaders & { readonly ":status"?: number }): void {
  const { ":status": status = 0, ...fields } = headers;
  this[ownerKey]?.onInterimHead(status, fields);
}

/** A head could not be sent, since the endpoint has left. */
function onFrameError(this: OwnedStream, type: number): void {
  if (type === headersFrame) this[ownerKey]?.onUnprocessed();
}
