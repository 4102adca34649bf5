/**
 * Normalises a request target for matching, limits, logs and forwarding. Thus no other spelling of a path reaches a
 * backend without the rule and the limits that apply to its plain spelling.
 *
 * Percent-encoded characters that a path segment may contain unencoded are decoded once (RFC 3986 §6.2.2.2, and also
 * the delimiters of §3.3, which all servers decode). Other escapes get upper-case digits (§6.2.2.1). `.` and `..`
 * segments are removed (§5.2.4). `PathRules` decides about the spellings that servers read differently. A spelling that
 * two servers could read as different paths is rejected. The query is left unchanged.
 */
import { defaultPathRules, type PathRules } from "./path-rules.ts";

const percent = 0x25;
const slash = 0x2f;
const dot = 0x2e;
const semicolon = 0x3b;
const backslash = 0x5c;
const questionMark = 0x3f;
const hash = 0x23;
const tilde = 0x7e;
const upperA = 0x41;
const upperZ = 0x5a;

/**
 * Returns the normalised target (query included), or `undefined` if it must be rejected with a 400: it does not begin
 * with `/`, or the path contains a broken escape, NUL, a fragment, an overlong UTF-8 sequence, a non-ASCII byte
 * (possible in HTTP/2; some servers read it like its escape), a spelling that `rules` rejects, or dots and separators
 * in a spelling that some servers read as `..` and others as data (`..%2f`, `..\`, `..;`). Idempotent. The asterisk of
 * `OPTIONS *` is accepted.
 */
export function normalizePath(target: string, rules: PathRules = defaultPathRules): string | undefined {
  if (isPlain(target, rules.pathCase === "lower")) return target;
  if (target.charCodeAt(0) !== slash) return target === "*" ? target : undefined;
  const [path, query] = splitTarget(target);
  const decoded = decodeSafe(path);
  if (decoded === undefined || isAmbiguous(decoded)) return undefined;
  const changed = applyRules(decoded, rules);
  return changed === undefined ? undefined : changed + query;
}

/**
 * Returns the other paths that servers could read in a normalised target, if `rules` requires that all of them lead to
 * the same rule: normalised, without the query and without the path of the target itself. Empty for nearly every
 * request.
 */
export function otherReadings(target: string, rules: PathRules): readonly string[] {
  const decodes = rules.escapedSlashes === "consistent" && (target.includes("%2F") || target.includes("%5C"));
  const strips = rules.pathParameters === "consistent" && (target.includes(";") || target.includes("%3B"));
  if (!decodes && !strips) return [];
  const [path] = splitTarget(target);
  const readings = new Set<string>();
  const read = (reading: string): void => {
    readings.add(withoutDotSegments(reading, rules.repeatedSlashes));
  };
  if (decodes) read(withPlainSlashes(path));
  if (strips) {
    read(withoutParameters(path));
    read(withoutParameters(path.replaceAll("%3B", ";")));
  }
  if (decodes && strips) {
    read(withoutParameters(withPlainSlashes(path.replaceAll("%3B", ";"))));
    read(withPlainSlashes(withoutParameters(path)));
  }
  readings.delete(path);
  return [...readings];
}

/** Recognizes the paths of nearly all requests in one pass that allocates nothing. */
function isPlain(target: string, isLowered: boolean): boolean {
  if (target.charCodeAt(0) !== slash) return false;
  let previous = 0;
  for (let at = 0; at < target.length; at++) {
    const char = target.charCodeAt(at);
    if (char === questionMark) return true;
    if (char === percent || char === backslash || char === hash || char === semicolon || char > tilde) return false;
    if (previous === slash && (char === slash || char === dot)) return false;
    if (isLowered && char >= upperA && char <= upperZ) return false;
    previous = char;
  }
  return true;
}

/** Returns the path and the query, which is empty or begins with its question mark. */
function splitTarget(target: string): readonly [path: string, query: string] {
  const queryStart = target.indexOf("?");
  return queryStart === -1 ? [target, ""] : [target.slice(0, queryStart), target.slice(queryStart)];
}

const percentEscape = /%[0-9A-Fa-f]{2}/g;
const brokenEscape = /%(?![0-9A-Fa-f]{2})/;
/**
 * Unreserved characters, and the delimiters that a segment may contain (RFC 3986 §3.3), except `;`, which begins a path
 * parameter for some servers, and `+`, which some servers read as a space.
 */
const safe = /[A-Za-z0-9\-._~!$&'()*,=:@]/;

/** Returns undefined if a `%` is not followed by two hexadecimal digits. */
function decodeSafe(path: string): string | undefined {
  // A `%` without digits is rejected, not kept: `%%32e` would become `%2e`, which the backend would decode to a dot.
  if (brokenEscape.test(path)) return undefined;
  return path.replace(percentEscape, (escape) => {
    const char = String.fromCharCode(Number.parseInt(escape.slice(1), 16));
    return safe.test(char) ? char : escape.toUpperCase();
  });
}

/** RFC 3986 allows them in escapes only. */
const beyondTilde = /[^\0-~]/;
/** More bytes than the character needs (RFC 3629 §3): lenient decoders read `%C0%AF` as a slash. */
const overlong = /%C[01]%[89AB]|%E0%[89]|%F0%8/;

function isAmbiguous(path: string): boolean {
  return path.includes("#") || beyondTilde.test(path) || path.includes("%00") || overlong.test(path);
}

/** A dot segment next to a separator that only some servers recognize, including `/..;x/` (servlet path parameters). */
const ambiguousDotSegment =
  /(?:^|\/|\\|%2F|%5C)\.{1,2}(?:\\|%2F|%5C|;|%3B)|(?:\\|%2F|%5C)\.{1,2}(?:$|\/|\\|%2F|%5C|;|%3B)/;

function applyRules(decoded: string, rules: PathRules): string | undefined {
  let path = decoded;
  if (rules.escapedSlashes === "reject" && /%2F|%5C/.test(path)) return undefined;
  if (rules.escapedSlashes === "decode") path = path.replaceAll("%2F", "/").replaceAll("%5C", "\\");
  if (rules.backslashes === "convert") path = path.replaceAll("\\", "/");
  else if (rules.backslashes === "reject" && path.includes("\\")) return undefined;
  if (rules.pathParameters === "reject" && /;|%3B/.test(path)) return undefined;
  if (ambiguousDotSegment.test(path)) return undefined;
  if (rules.pathParameters === "strip") path = withoutParameters(path);
  if (rules.repeatedSlashes !== "merge" && path.includes("//")) {
    // Servers differ in whether `..` removes an empty segment.
    if (rules.repeatedSlashes === "reject" || /\/\.{1,2}(?:\/|$)/.test(path)) return undefined;
  }
  if (rules.pathCase === "lower") path = path.toLowerCase().replace(percentEscape, (escape) => escape.toUpperCase());
  return withoutDotSegments(path, rules.repeatedSlashes);
}

function withPlainSlashes(path: string): string {
  return path.replace(/%2F|%5C|\\/g, "/");
}

function withoutParameters(path: string): string {
  return path.replace(/;[^/]*/g, "");
}

/**
 * Removes dot segments (RFC 3986 §5.2.4), and before that empty segments, so that all servers read `/a//../b` as `/b`.
 */
function withoutDotSegments(path: string, repeatedSlashes: PathRules["repeatedSlashes"]): string {
  // No empty segment that remains is next to a dot segment.
  if (repeatedSlashes === "keep" && path.includes("//")) return path;
  const segments: string[] = [];
  const segmentsOfPath = path.split("/");
  const last = segmentsOfPath.at(-1) ?? "";
  for (const segment of segmentsOfPath) {
    if (segment === "" || segment === ".") continue;
    if (segment === "..") segments.pop();
    else segments.push(segment);
  }
  const endsWithSlash = last === "" || last === "." || last === "..";
  if (segments.length === 0) return "/";
  return `/${segments.join("/")}${endsWithSlash ? "/" : ""}`;
}
