/**
 * The header section of the upstream request: what the client sent, without what was meant for its connection to us,
 * plus where the request came from. Built in one pass, because headers are the main variable cost of a request.
 *
 * Trust: there are no trusted hops, so nothing that a client says about its origin is believed.
 * - `x-forwarded-for`: the peer's address is appended; the last member is therefore always true, the others are hearsay.
 * - `x-forwarded-proto` and `x-forwarded-host`: written anew from the connection and the request's authority; a
 *   client's `https` over plain text would otherwise pass for the truth.
 * - `x-request-id`: the client's, if it is a sensible token, so that its logs and ours can be joined; else a new one.
 * - `via` is not sent: origin servers switch compression off when they see it.
 */
import { shownText } from "@gatewayproxy/runtime/redaction";
import { acceptsTrailers, isHopByHop, isName } from "./hop-by-hop.ts";

export interface RequestOrigin {
  /** The `host` to send; differs from `authority` when a filter rewrites it. */
  readonly host: string;
  /** The authority that the client asked for. */
  readonly authority: string;
  /** Scheme of the client's connection: `http` or `https`. */
  readonly scheme: string;
  /** Peer address of the client's connection. */
  readonly sourceAddress: string;
  /** As `requestIdOf` found it. */
  readonly requestId: string;
}

/**
 * Names and values in turn, owned by the caller; `host` is the first.
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

/** By length first: most names are decided without comparing a character. */
function treatmentOf(name: string): Treatment {
  switch (name.length) {
    case 2:
      return isName(name, "te") ? "te" : "pass";
    case 4:
      return isName(name, "host") ? "drop" : "pass";
    case 6:
      // The server answers `Expect: 100-continue` itself (RFC 9110 §10.1.1).
      return isName(name, "expect") ? "drop" : "pass";
    case 8:
      // Written anew behind the filters (`loop.ts`).
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
      // Beside `Upgrade: h2c`, which is hop-by-hop (RFC 9113 §3.1 has retired both).
      return isName(name, "http2-settings") ? "drop" : "pass";
    default:
      // Pseudo-header fields of HTTP/2 (`:path`) say again what the request line says.
      return name.charCodeAt(0) === 0x3a || isHopByHop(name) ? "drop" : "pass";
  }
}

/** 1 to 128 visible characters that need no quoting anywhere: what tracing systems use as ids. */
const SENSIBLE_ID = /^[\w\-.:/+=@]{1,128}$/;

/** The request's own `x-request-id` when it is a sensible one, else a new one from `createId`. */
export function requestIdOf(rawHeaders: readonly string[], createId: () => string): string {
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const name = rawHeaders[at];
    if (name?.length !== 12 || !isName(name, "x-request-id")) continue;
    const id = rawHeaders[at + 1] ?? "";
    // It is logged and sent on, which a credential in the wrong place must not be.
    if (SENSIBLE_ID.test(id) && shownText(id) === id) return id;
  }
  return createId();
}
