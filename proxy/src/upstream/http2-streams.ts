/**
 * How a call is given up over HTTP/2. undici closes its stream: without a reason where the call is aborted, with
 * REFUSED_STREAM where the endpoint leaves (GOAWAY) and takes no notice of it any more. Node holds such a reset back
 * until the body has left; where that waits for the endpoint's flow-control window, the stream leaves Node packing empty
 * frames for ever, with all of the machine's memory (seen with Node 26.10 and undici 8.12). A stream that is destroyed
 * with Node's own AbortError, and not closed before, is reset at once with CANCEL (RFC 9113 §7).
 */
import { subscribe } from "node:diagnostics_channel";
import type { ClientHttp2Stream } from "node:http2";
import { addAbortSignal, type Readable } from "node:stream";

/** What Node publishes with each stream that a client opens. */
interface StreamCreated {
  readonly stream: ClientHttp2Stream;
}

/** Has every HTTP/2 stream of this thread that its client closes reset at once, and none end the thread. To be called once. */
export function resetAbandonedStreams(): void {
  subscribe("http2.client.stream.created", (message) => {
    // As Node's documentation of the channel has it.
    const { stream } = message as StreamCreated;
    // undici listens while a call needs the stream; an error of the connection may come after that.
    stream.on("error", ignore);
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

function resetAtOnce(this: ClientHttp2Stream): void {
  abandon(this);
}

function ignore(): void {
  // Nothing to do: whoever needs the stream hears of it too.
}
