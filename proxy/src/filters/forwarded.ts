/**
 * Builds the header section of the upstream request: the client's fields without those of its connection, plus the
 * origin of the request. It is built in one pass, since headers are the main variable cost of a request (`npm run
 * bench`).
 *
 * Trust: there are no trusted hops, so nothing that a client claims about its origin is trusted.
 * - `x-forwarded-for`: the peer's address is appended; only the last member is trustworthy.
 * - `x-forwarded-proto` and `x-forwarded-host`: replaced by the scheme of the connection and the request's authority.
 * - `x-request-id`: that of the client where it is a valid id, so that the logs of both can be joined; otherwise a new
 *   one.
 * - `via` is not sent: origin servers disable compression when they see it.
 */
import { redactText } from "@gatewayproxy/runtime/redaction";
import { acceptsTrailers, isHopByHop, isName } from "./hop-by-hop.ts";

/** The origin of a request. */
export interface RequestOrigin {
  /** The `host` to send; differs from `authority` when a filter rewrites it. */
  readonly host: string;
  /** The authority of the client's request. */
  readonly authority: string;
  /** Scheme of the client's connection: `http` or `https`. */
  readonly scheme: string;
  /** Peer address of the client's connection. */
  readonly sourceAddress: string;
  /** The result of `requestIdOf`. */
  readonly requestId: string;
}

/**
 * Returns names and values in turn, owned by the caller; `host` is the first.
 *
 * @param rawHeaders each name once, without those that `Connection` names.
 */
export function forwardRequestHeaders(rawHeaders: readonly string[], origin: RequestOrigin): string[] {
  const forwarded = ["host", origin.host];
  let forwardedFor = "";
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] ?? "";
    const value = rawHeaders[at + 1] ?? "";
    switch (treatmentOf(name)) {
      case "pass":
        forwarded.push(name, value);
        break;
      case "te":
        if (acceptsTrailers(value)) forwarded.push("te", "trailers");
        break;
      case "forwardedFor":
        if (value !== "") forwardedFor = `${value}, `;
        break;
      case "drop":
        break;
    }
  }
  forwarded.push("x-forwarded-for", forwardedFor + origin.sourceAddress);
  forwarded.push("x-forwarded-proto", origin.scheme, "x-forwarded-host", origin.authority);
  forwarded.push("x-request-id", origin.requestId);
  return forwarded;
}

type Treatment = "pass" | "drop" | "te" | "forwardedFor";

/** Compares the length first, which decides most names without comparing a character. */
function treatmentOf(name: string): Treatment {
  switch (name.length) {
    case 2:
      return isName(name, "te") ? "te" : "pass";
    case 4:
      return isName(name, "host") ? "drop" : "pass";
    case 6:
      // The server itself responds to `Expect: 100-continue` (RFC 9110 §10.1.1).
      return isName(name, "expect") ? "drop" : "pass";
    case 8:
      // Added again after the filters (`loop.ts`).
      return isName(name, "cdn-loop") ? "drop" : "pass";
    case 12:
      return isName(name, "x-request-id") ? "drop" : "pass";
    case 15:
      return isName(name, "x-forwarded-for") ? "forwardedFor" : "pass";
    case 16:
      return isName(name, "x-forwarded-host") || isHopByHop(name) ? "drop" : "pass";
    case 17:
      return isName(name, "x-forwarded-proto") || isHopByHop(name) ? "drop" : "pass";
    case 14:
      // Belongs to `Upgrade: h2c`, which is hop-by-hop (RFC 9113 §3.1 removed both).
      return isName(name, "http2-settings") ? "drop" : "pass";
    default:
      // Pseudo-header fields of HTTP/2 (`:path`) repeat the request line.
      return name.charCodeAt(0) === 0x3a || isHopByHop(name) ? "drop" : "pass";
  }
}

/** 1 to 128 visible characters that need no quoting anywhere, as tracing systems use for ids. */
const validId = /^[\w\-.:/+=@]{1,128}$/;

/** Returns the request's `x-request-id` where it is valid, otherwise a new one from `createId`. */
export function requestIdOf(rawHeaders: readonly string[], createId: () => string): string {
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const name = rawHeaders[at];
    if (name?.length !== 12 || !isName(name, "x-request-id")) continue;
    const id = rawHeaders[at + 1] ?? "";
    // The id is logged and forwarded, so it must not be a credential.
    if (validId.test(id) && redactText(id) === id) return id;
  }
  return createId();
}
