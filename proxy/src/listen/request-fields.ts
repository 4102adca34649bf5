/**
 * Normalizes the header section of a request. Routes, expressions, limit keys and the backend all read the same result.
 * Each name occurs once, so the backend cannot read another line than the one that a limit has counted.
 *
 * - Lines of one name are joined in their order (RFC 9110 §5.3, RFC 9113 §8.2.3). A second line of a field that is
 *   defined to have a single value is an error (RFC 9110 §5.3).
 * - Fields that `Connection` names are removed. They apply to the client's connection only and are not forwarded.
 * - Names that a CGI-style server could read as another field (`X_User` as `X-User`) are dropped or rejected.
 * - `x-gateway-model` is dropped: in matches it stands for the model that the body names, and a client must not choose
 *   another.
 * - `Bearer` and `Basic` are spelled so, with one space (RFC 9110 §11.1: the scheme is case-insensitive).
 */
import { joinedValue } from "../filters/header-edits.ts";
import { connectionOptions, isName } from "../filters/hop-by-hop.ts";
import { modelHeader } from "../routing/request-reading.ts";

/** The actions on a field whose name has other characters than letters, digits and hyphens, such as an underscore. */
export const irregularNameActions = ["drop", "reject", "keep"] as const;
/** `drop` removes the field, `reject` rejects the request with a 400, `keep` forwards the field. */
export type IrregularNameAction = (typeof irregularNameActions)[number];

/** Why a request is rejected. */
export interface FieldFault {
  readonly status: 400;
  /** For the client. */
  readonly message: string;
}

/**
 * Returns the normalized section, or why the request is rejected. Returns `rawHeaders` itself, without a copy, if it
 * needs no change.
 *
 * @param rawHeaders names and values alternate, as in node:http.
 */
export function requestFields(
  rawHeaders: readonly string[],
  irregularNames: IrregularNameAction,
): readonly string[] | FieldFault {
  return isRegular(rawHeaders) ? rawHeaders : regularized(rawHeaders, irregularNames);
}

/** In longer sections, repeated names are found by a map and not by comparing pairs. */
const maxPairwise = 2 * 32;

/** Whether the section needs no change, which is true for most requests. Allocates nothing. */
function isRegular(rawHeaders: readonly string[]): boolean {
  if (rawHeaders.length > maxPairwise) return false;
  // A bit for each length, modulo 32, of the names so far. Most names differ in length from all others.
  let lengths = 0;
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] ?? "";
    if (!isRegularName(name)) return false;
    if (name.length === 13 && isName(name, "authorization") && !hasPlainScheme(rawHeaders[at + 1] ?? "")) return false;
    if (name.length === modelHeaderLength && isModelHeader(name)) return false;
    const length = 1 << (name.length & 31);
    if ((lengths & length) !== 0 && comesBefore(rawHeaders, at, name)) return false;
    lengths |= length;
  }
  return connectionOptions(rawHeaders) === undefined;
}

const modelHeaderLength = modelHeader.length;

/** Compares the third character first: `accept-encoding` and `accept-language` have the same length. */
function isModelHeader(name: string): boolean {
  return (name.charCodeAt(2) | 0x20) === modelHeader.charCodeAt(2) && isName(name, modelHeader);
}

function comesBefore(rawHeaders: readonly string[], end: number, name: string): boolean {
  for (let at = 0; at < end; at += 2) {
    if (isSameName(name, rawHeaders[at] ?? "")) return true;
  }
  return false;
}

function isSameName(name: string, other: string): boolean {
  const { length } = name;
  if (other.length !== length || ((name.charCodeAt(length - 1) ^ other.charCodeAt(length - 1)) & 0xdf) !== 0) {
    return false;
  }
  return name === other || name.toLowerCase() === other.toLowerCase();
}

function regularized(
  rawHeaders: readonly string[],
  irregularNames: IrregularNameAction,
): readonly string[] | FieldFault {
  const dropped = new Set(connectionOptions(rawHeaders)).add(modelHeader);
  const places = new Map<string, number>();
  const fields: string[] = [];
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] ?? "";
    const lowerCase = name.toLowerCase();
    const value = rawHeaders[at + 1] ?? "";
    if (irregularNames !== "keep" && !isRegularName(name)) {
      if (irregularNames === "reject") return irregularName;
      continue;
    }
    if (dropped.has(lowerCase)) continue;
    const place = places.get(lowerCase);
    if (place === undefined) {
      places.set(lowerCase, fields.length);
      fields.push(name, lowerCase === "authorization" ? withPlainScheme(value) : value);
    } else if (singleValued.has(lowerCase)) {
      return { status: 400, message: `more than one ${lowerCase} field` };
    } else {
      fields[place + 1] = joinedValue(lowerCase, fields[place + 1] ?? "", value);
    }
  }
  return fields;
}

const irregularName: FieldFault = {
  status: 400,
  message: "a field name may hold letters, digits and hyphens only",
};

/** Pseudo-header fields of HTTP/2 begin with a colon, which no other name may have (RFC 9110 §5.1). */
function isRegularName(name: string): boolean {
  for (let at = 0; at < name.length; at++) {
    if (regularCharacters[name.charCodeAt(at)] !== 1) return false;
  }
  return true;
}

/** By character code: 1 for letters, digits, the hyphen and the colon. */
const regularCharacters = Uint8Array.from({ length: 128 }, (_, code) =>
  /[A-Za-z0-9:-]/.test(String.fromCharCode(code)) ? 1 : 0,
);

/** Request fields whose definition allows one value (RFC 9110 and the RFCs of the fields). */
const singleValued: ReadonlySet<string> = new Set([
  ...["access-control-request-method", "authorization", "content-length", "content-range", "content-type", "date"],
  ...["from", "host", "if-modified-since", "if-range", "if-unmodified-since", "max-forwards", "origin"],
  ...["proxy-authorization", "range", "referer", "sec-websocket-key", "sec-websocket-version", "user-agent"],
]);

/** Whether `withPlainScheme` would not change the value. */
function hasPlainScheme(credentials: string): boolean {
  return !anyScheme.test(credentials) || plainScheme.test(credentials);
}

function withPlainScheme(credentials: string): string {
  return credentials.replace(anyScheme, (_, scheme: string) =>
    scheme.toLowerCase() === "bearer" ? "Bearer " : "Basic ",
  );
}

const anyScheme = /^(bearer|basic)[ \t]+/i;
const plainScheme = /^(?:Bearer|Basic) [^ \t]/;
