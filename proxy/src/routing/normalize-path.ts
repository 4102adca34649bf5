/**
 * Brings a request target to the one form that is matched and forwarded, so that no spelling of a path reaches a
 * backend past the rule, and the limits, that its plain spelling would meet.
 *
 * What is done follows RFC 3986 §6.2.2 and what Envoy and nginx do at the edge: percent-encoded unreserved characters
 * are decoded once, other escapes get upper-case digits, runs of slashes become one, `.` and `..` segments are removed.
 * `%2F` stays data and never becomes a separator (package and project names carry it). What two readers could take for
 * different paths is refused rather than guessed at. The query is left byte for byte.
 */

const PERCENT = 0x25;
const SLASH = 0x2f;
const DOT = 0x2e;
const BACKSLASH = 0x5c;
const QUESTION_MARK = 0x3f;
const HASH = 0x23;
const TILDE = 0x7e;

/**
 * Returns the normalised target (query included), or `undefined` when it must be answered with 400: it does not begin
 * with `/`, or the path holds a broken escape, NUL, a fragment, bytes beyond ASCII that some servers take for their
 * escapes (HTTP/2 carries them), or dots and separators in a spelling that some servers read as `..` and others as data
 * (`..%2f`, `..\`, `..;`). Idempotent. The asterisk of `OPTIONS *` passes as it is.
 */
export function normalizePath(target: string): string | undefined {
  if (isPlain(target)) return target;
  if (target.charCodeAt(0) !== SLASH) return target === "*" ? target : undefined;
  const queryStart = target.indexOf("?");
  const path = queryStart === -1 ? target : target.slice(0, queryStart);
  const query = queryStart === -1 ? "" : target.slice(queryStart);

  const decoded = decodeUnreserved(path);
  if (decoded === undefined || isAmbiguous(decoded)) return undefined;
  return removeDotSegments(decoded) + query;
}

/** True for the paths that nearly all requests have, found in one pass that allocates nothing. */
function isPlain(target: string): boolean {
  if (target.charCodeAt(0) !== SLASH) return false;
  let previous = 0;
  for (let at = 0; at < target.length; at++) {
    const char = target.charCodeAt(at);
    if (char === QUESTION_MARK) return true;
    if (char === PERCENT || char === BACKSLASH || char === HASH || char > TILDE) return false;
    if (previous === SLASH && (char === SLASH || char === DOT)) return false;
    previous = char;
  }
  return true;
}

const ESCAPE = /%[0-9A-Fa-f]{2}/g;
const BROKEN_ESCAPE = /%(?![0-9A-Fa-f]{2})/;
const UNRESERVED = /[A-Za-z0-9\-._~]/;

/** RFC 3986 §6.2.2.1 and §6.2.2.2; `undefined` when a `%` is not followed by two hexadecimal digits. */
function decodeUnreserved(path: string): string | undefined {
  // A lone `%` is refused and not kept: `%%32e` would become `%2e`, which the backend would decode to a dot.
  if (BROKEN_ESCAPE.test(path)) return undefined;
  return path.replace(ESCAPE, (escape) => {
    const char = String.fromCharCode(Number.parseInt(escape.slice(1), 16));
    return UNRESERVED.test(char) ? char : escape.toUpperCase();
  });
}

/** A dot segment with a separator of another server on one of its sides, `/..;x/` (servlet path parameters) included. */
const FOREIGN_DOT_SEGMENT =
  /(?:^|\/|\\|%2F|%5C)\.{1,2}(?:\\|%2F|%5C|;|%3B)|(?:\\|%2F|%5C)\.{1,2}(?:$|\/|\\|%2F|%5C|;|%3B)/;

/** RFC 3986 has no place for them but in escapes. */
const BEYOND_TILDE = /[^\0-~]/;

function isAmbiguous(path: string): boolean {
  return path.includes("#") || BEYOND_TILDE.test(path) || path.includes("%00") || FOREIGN_DOT_SEGMENT.test(path);
}

/** RFC 3986 §5.2.4 over a path whose empty segments are dropped first, so that `/a//../b` is `/b` for everybody. */
function removeDotSegments(path: string): string {
  const kept: string[] = [];
  const segments = path.split("/");
  const last = segments[segments.length - 1] ?? "";
  for (const segment of segments) {
    if (segment === "" || segment === ".") continue;
    if (segment === "..") kept.pop();
    else kept.push(segment);
  }
  const endsWithSlash = last === "" || last === "." || last === "..";
  if (kept.length === 0) return "/";
  return `/${kept.join("/")}${endsWithSlash ? "/" : ""}`;
}
