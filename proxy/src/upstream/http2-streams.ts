/**
 * How a call is given up over HTTP/2. undici closes its stream: without a reason where the call is aborted, with
 * REFUSED_STREAM where the endpoint leaves (GOAWAY) and takes no notice of it any more. Node holds such a reset back
 * until the body has left; where that waits for the endpoint's flow-control window, the stream leaves Node packing empty
 * frames for ever, with all of the machine's memory (seen with Node 26.10 and undici 8.12). A stream that is destroyed
 * with Node's own AbortError, and not closed before, is reset at once with CANCEL (RFC 9113 §7).
 *
 * Here is also seen which requests an endpoint has not looked at (RFC 9113 §8.7): it refused the stream, or left (GOAWAY)
 * without taking it. undici would send such a request again by itself, where a break of the next connection can make it
 * send others too; whoever made the call is told instead, and does that.
 */
import { subscribe } from "node:diagnostics_channel";
import { type ClientHttp2Stream, constants, type Http2Session } from "node:http2";
import { addAbortSignal, type Readable } from "node:stream";

/** Whoever a stream was opened for. */
export interface StreamOwner {
  /** The endpoint has not looked at the request: it may be sent elsewhere, whatever it asks for. */
  onRefused(): void;
  /** An answer with a status of 1xx has come. */
  onInterimHead(): void;
}

interface OwnedStream extends ClientHttp2Stream {
  [ownerKey]?: StreamOwner | undefined;
}

interface WatchedSession extends Http2Session {
  /** The last stream that its endpoint has taken, or may have: without bound till it leaves (GOAWAY). */
  [lastTakenKey]?: number;
}

const ownerKey = Symbol("owner");
const lastTakenKey = Symbol("last taken");
/** RFC 9113 §6.2 */
const headersFrame = 0x1;

/** Who begins a request, until its stream is there. */
let beginning: StreamOwner | undefined;

/** Makes `owner` that of the stream which is opened next, in the same turn. */
export function beginStream(owner: StreamOwner): void {
  beginning = owner;
  // None comes of it where the connection breaks at that very moment; another client's must not be taken for it.
  queueMicrotask(endBeginning);
}

function endBeginning(): void {
  beginning = undefined;
}

/** What Node publishes with each stream that a client opens. */
interface StreamCreated {
  readonly stream: OwnedStream;
}

/**
 * Has every HTTP/2 stream of this thread that its client closes reset at once, none end the thread, and owners hear of
 * theirs. To be called once.
 */
export function watchStreams(): void {
  subscribe("http2.client.stream.created", (message) => {
    // As Node's documentation of the channel has it.
    const { stream } = message as StreamCreated;
    stream[ownerKey] = beginning;
    beginning = undefined;
    watchSession(stream.session);
    // undici listens after us, and while a call needs the stream; an error of the connection may come after that.
    stream.on("error", onError);
    stream.on("frameError", onFrameError);
    stream.on("headers", onInterimHead);
    stream.close = resetAtOnce;
  });
}

/**
 * Destroys a stream, or the source of one, so that the endpoint is told CANCEL. Only so is Node's AbortError to be had:
 * any other, of the same name too, is told as INTERNAL_ERROR.
 */
export function abandon(stream: Readable | ClientHttp2Stream): void {
  addAbortSignal(abandoned, stream);
}

const abandoned = AbortSignal.abort();

function watchSession(session: WatchedSession | undefined): void {
  if (session === undefined || session[lastTakenKey] !== undefined) return;
  session[lastTakenKey] = Number.POSITIVE_INFINITY;
  // Before undici, which drops streams as it hears of it.
  session.prependListener("goaway", onGoaway);
}

function onGoaway(this: WatchedSession, _code: number, lastStream: number): void {
  this[lastTakenKey] = lastStream;
}

/** @param code REFUSED_STREAM where an endpoint leaves and undici drops what it has not taken, and at times more. */
function resetAtOnce(this: OwnedStream, code?: number): void {
  if (code === constants.NGHTTP2_REFUSED_STREAM && !wasTaken(this)) this[ownerKey]?.onRefused();
  abandon(this);
}

function wasTaken({ id, session }: OwnedStream): boolean {
  const watched: WatchedSession | undefined = session;
  return id !== undefined && id <= (watched?.[lastTakenKey] ?? Number.POSITIVE_INFINITY);
}

/** All other errors are heard by whoever needs the stream. */
function onError(this: OwnedStream): void {
  if (this.rstCode === constants.NGHTTP2_REFUSED_STREAM) this[ownerKey]?.onRefused();
}

/** The final head is another event. */
function onInterimHead(this: OwnedStream): void {
  this[ownerKey]?.onInterimHead();
}

/** A head that could not leave, because the endpoint has left. */
function onFrameError(this: OwnedStream, type: number): void {
  if (type === headersFrame) this[ownerKey]?.onRefused();
}
