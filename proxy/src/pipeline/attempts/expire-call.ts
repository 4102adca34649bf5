/** Ends calls that take too long. */
import type { UpstreamCall } from "../../upstream/call.ts";
import type { RequestBody } from "../body/request-body.ts";
import type { ResponseRelay } from "./response-relay.ts";

/** The upload of a call; undefined if it has none. */
type CallBody = Pick<RequestBody, "waitsFor"> | undefined;

/** Ends a call. It counts against its endpoint, unless the client has not sent the rest of the upload. */
export function expireCall(call: UpstreamCall, body: CallBody): void {
  if (body?.waitsFor === "client") call.abort();
  else call.expire();
}

/** Ends an attempt without a complete response within its timeout. */
export function onAttemptTimeout(call: UpstreamCall, relay: ResponseRelay, body: CallBody): void {
  // The response has arrived completely; the rest depends on the client.
  if (call.isOver) return;
  expireCall(call, body);
  relay.onFailure({ kind: "timeout", message: "no complete response within timeouts.backendRequest" }, call);
}
