/** Receivers of requests and bodies, which record what they receive. */
import type { IncomingBody, ServerExchangeEvents } from "../ports.ts";

/** Reads a body. */
export function read(body: IncomingBody | undefined) {
  const seen = { data: "", trailers: undefined as readonly string[] | undefined, isAborted: false };
  body?.read({
    onData: (bytes) => (seen.data += bytes.toString("latin1")),
    onEnd: (trailers) => (seen.trailers = trailers),
    onAborted: () => (seen.isAborted = true),
  });
  return seen;
}

/**
 * Returns events that a test handles in part.
 *
 * @param completed gets whether each exchange was completed, in the order of their ends.
 */
export function recorded(events: Partial<ServerExchangeEvents>, completed: boolean[]): ServerExchangeEvents {
  return {
    onDrain: () => events.onDrain?.(),
    onBodyRejected: (status, message) => events.onBodyRejected?.(status, message),
    onClose: (isCompleted) => {
      completed.push(isCompleted);
      events.onClose?.(isCompleted);
    },
  };
}
