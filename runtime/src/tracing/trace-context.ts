/**
 * The position of a request in its distributed trace, as headers carry it: W3C Trace Context (Recommendation, level 1
 * with the flags of level 2), W3C Baggage, and B3. Headers come from anyone, so each value is validated and bounded,
 * and a value that is not valid counts as absent.
 */

/** The context that a caller sends. */
export interface RemoteContext {
  /** 32 hexadecimal digits in lower case, not all zeros. */
  readonly traceId: string;
  /** 16 hexadecimal digits in lower case, not all zeros: the span of the caller. */
  readonly spanId: string;
  /** The sampling decision of the caller; undefined if it leaves the decision to us, as B3 allows. */
  readonly isSampled: boolean | undefined;
}

/** The header of W3C Trace Context. */
export const traceparentHeader = "traceparent";
/** The header with the states of tracing systems. */
export const tracestateHeader = "tracestate";
/** The header of W3C Baggage. */
export const baggageHeader = "baggage";

const sampledFlag = 1;
const traceparent = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?$/;
const noTraceId = "0".repeat(32);
const noSpanId = "0".repeat(16);
/** The length of version 00. Longer values are of later versions, whose further parts are ignored. */
const traceparentLength = 55;
/** Later versions may be longer, by an unknown amount. */
const maxTraceparent = 256;

/** Parses `traceparent` (Trace Context §3.2). Undefined if it is absent or invalid. */
export function parseTraceparent(value: string | undefined): RemoteContext | undefined {
  if (value === undefined || value.length < traceparentLength || value.length > maxTraceparent) return undefined;
  const [, version, traceId = "", spanId = "", flags = ""] = traceparent.exec(value) ?? [];
  if (version === undefined || version === "ff") return undefined;
  if (version === "00" && value.length !== traceparentLength) return undefined;
  if (traceId === noTraceId || spanId === noSpanId) return undefined;
  return { traceId, spanId, isSampled: (Number.parseInt(flags, 16) & sampledFlag) !== 0 };
}

/** What `parseTraceReference` accepts, for messages. */
export const acceptedTraceReference = "a trace id of 32 hexadecimal digits that are not all zeros, or a traceparent";

/** Parses a trace id, or a `traceparent`, as a person copies it. Undefined if it is neither; no span for a trace id. */
export function parseTraceReference(
  text: string,
): { readonly traceId: string; readonly parent: RemoteContext | undefined } | undefined {
  const value = text.trim().toLowerCase();
  if (/^[0-9a-f]{32}$/.test(value)) return value === noTraceId ? undefined : { traceId: value, parent: undefined };
  const parent = parseTraceparent(value);
  return parent === undefined ? undefined : { traceId: parent.traceId, parent };
}

/** Renders `traceparent` in version 00. */
export function renderTraceparent(traceId: string, spanId: string, isSampled: boolean): string {
  return `00-${traceId}-${spanId}-${isSampled ? "01" : "00"}`;
}

/** Maximum characters of `tracestate`: what every implementation passes on (Trace Context §3.3.1.5). */
const maxTracestate = 512;
const maxTracestateMembers = 32;
const tracestateMember =
  /^(?:[a-z][a-z0-9_\-*/]{0,255}|[a-z0-9][a-z0-9_\-*/]{0,240}@[a-z][a-z0-9_\-*/]{0,13})=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]$/;

/** Returns `tracestate` if it is valid and within its bounds (Trace Context §3.3); otherwise undefined. */
export function validTracestate(value: string | undefined): string | undefined {
  if (value === undefined || value === "" || value.length > maxTracestate) return undefined;
  const members = value.split(",").map((member) => member.trim());
  const present = members.filter((member) => member !== "");
  if (present.length > maxTracestateMembers || !present.every((member) => tracestateMember.test(member))) {
    return undefined;
  }
  return present.length === 0 ? undefined : present.join(",");
}

/** Maximum characters and members of `baggage`: what every implementation passes on (Baggage §3.3.2). */
const maxBaggage = 8_192;
const maxBaggageMembers = 64;
/** The characters of a list of members: visible ASCII, spaces and tabs (RFC 9110 §5.5, Baggage §3.3.1). */
const baggageText = /^[\t\x20-\x7e]+$/;

/**
 * Returns `baggage` if it is within its bounds; otherwise undefined. Its members are passed on and not read. Tabs
 * become spaces, since metadata of gRPC must not contain them.
 */
export function validBaggage(value: string | undefined): string | undefined {
  if (value === undefined || value.length > maxBaggage || !baggageText.test(value)) return undefined;
  if (value.split(",", maxBaggageMembers + 1).length > maxBaggageMembers) return undefined;
  return value.replaceAll("\t", " ").trim();
}

const b3Single = /^([0-9a-f]{32}|[0-9a-f]{16})-([0-9a-f]{16})(?:-([01d])(?:-[0-9a-f]{16})?)?$/i;

/** Parses the header `b3` (openzipkin/b3-propagation, "Single Header"). Undefined if it names no span. */
export function parseB3Single(value: string | undefined): RemoteContext | undefined {
  if (value === undefined || value.length > 100) return undefined;
  const [, traceId, spanId, sampled] = b3Single.exec(value) ?? [];
  return b3Context(traceId, spanId, sampled);
}

const hexId = /^(?:[0-9a-f]{32}|[0-9a-f]{16})$/i;

/** The headers of B3, "Multiple Headers". */
export interface B3Headers {
  readonly traceId: string | undefined;
  readonly spanId: string | undefined;
  readonly sampled: string | undefined;
  readonly flags: string | undefined;
}

/** Parses the headers `X-B3-*` (openzipkin/b3-propagation, "Multiple Headers"). Undefined if they name no span. */
export function parseB3Multi({ traceId, spanId, sampled, flags }: B3Headers): RemoteContext | undefined {
  if (traceId === undefined || !hexId.test(traceId)) return undefined;
  if (spanId?.length !== 16 || !hexId.test(spanId)) return undefined;
  return b3Context(traceId, spanId, flags === "1" ? "d" : sampled);
}

function b3Context(
  traceId: string | undefined,
  spanId: string | undefined,
  sampled: string | undefined,
): RemoteContext | undefined {
  if (traceId === undefined || spanId === undefined) return undefined;
  // A trace id of 64 bits is the right half of one of 128 bits.
  const long = traceId.toLowerCase().padStart(32, "0");
  const span = spanId.toLowerCase();
  if (long === noTraceId || span === noSpanId) return undefined;
  return { traceId: long, spanId: span, isSampled: b3Decision(sampled) };
}

function b3Decision(sampled: string | undefined): boolean | undefined {
  switch (sampled?.toLowerCase()) {
    case "1":
    case "d":
    case "true":
      return true;
    case "0":
    case "false":
      return false;
    case undefined:
    default:
      return undefined;
  }
}
