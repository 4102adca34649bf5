/**
 * Brings a request target to the one form that is matched, limited, logged and forwarded, so that no spelling of a path
 * reaches a backend past the rule, and the limits, that its plain spelling would meet.
 *
 * Percent-encoded characters that a path segment may hold as they are get decoded once (RFC 3986 §6.2.2.2, and beyond it
 * the delimiters of §3.3, which servers decode alike), other escapes get upper-case digits (§6.2.2.1), `.` and `..`
 * segments are removed (§5.2.4). `PathRules` decides about the spellings that some servers read one way and some another.
 * A spelling that two servers could read as different paths is rejected. The query is left unchanged.
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
 * with `/`, or the path holds a broken escape, NUL, a fragment, an overlong UTF-8 sequence, bytes beyond ASCII that some
 * servers take for their escapes (HTTP/2 carries them), a spelling that `rules` rejects, or dots and separators in a
 * spelling that some servers read as `..` and others as data (`..%2f`, `..\`, `..;`). Idempotent. The asterisk of
 * `OPTIONS *` passes as it is.
 */
export function normalizePath(target: string, rules: PathRules = defaultPathRules): string | undefined {
  if (isPlain(target, rules.pathCase === "lower")) return target;
  if (target.charCodeAt(0) !== slash) return target === "*" ? target : undefined;
  const [path, query] = splitTarget(target);
  const decoded = decodeSafe(path);
  if (decoded === undefined || isAmbiguous(decoded)) return undefined;
  const chosen = applyRules(decoded, rules);
  return chosen === undefined ? undefined : chosen + query;
}

/**
 * The paths, normalised and without the query, that servers could read a normalised target as, where `rules` asks that
 * all of them lead to the same rule. Empty for nearly every request. The target's own reading is not among them.
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

/** True for the paths that nearly all requests have, found in one pass that allocates nothing. */
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

/** The path and the query, which begins with its question mark or is empty. */
function splitTarget(target: string): readonly [path: string, query: string] {
  const queryStart = target.indexOf("?");
  return queryStart === -1 ? [target, ""] : [target.slice(0, queryStart), target.slice(queryStart)];
}

const percentEscape = /%[0-9A-Fa-f]{2}/g;
const brokenEscape = /%(?![0-9A-Fa-f]{2})/;
/**
 * Unreserved characters, and the delimiters that a segment may hold (RFC 3986 §3.3). Without `;`, which begins a path
 * parameter for some servers, and `+`, which some read as a space and others as itself.
 */
const safe = /[A-Za-z0-9\-._~!$&'()*,=:@]/;

/** `undefined` when a `%` is not followed by two hexadecimal digits. */
function decodeSafe(path: string): string | undefined {
  // A lone `%` is rejected and not kept: `%%32e` would become `%2e`, which the backend would decode to a dot.
  if (brokenEscape.test(path)) return undefined;
  return path.replace(percentEscape, (escape) => {
    const char = String.fromCharCode(Number.parseInt(escape.slice(1), 16));
    return safe.test(char) ? char : escape.toUpperCase();
  });
}

/** RFC 3986 has no place for them but in escapes. */
const beyondTilde = /[^\0-~]/;
/** More bytes than the character needs (RFC 3629 §3): lenient decoders read `%C0%AF` as a slash. */
const overlong = /%C[01]%[89AB]|%E0%[89]|%F0%8/;

function isAmbiguous(path: string): boolean {
  return path.includes("#") || beyondTilde.test(path) || path.includes("%00") || overlong.test(path);
}

/** A dot segment with a separator of another server on one of its sides, `/..;x/` (servlet path parameters) included. */
const foreignDotSegment =
  /(?:^|\/|\\|%2F|%5C)\.{1,2}(?:\\|%2F|%5C|;|%3B)|(?:\\|%2F|%5C)\.{1,2}(?:$|\/|\\|%2F|%5C|;|%3B)/;

function applyRules(decoded: string, rules: PathRules): string | undefined {
  let path = decoded;
  if (rules.escapedSlashes === "reject" && /%2F|%5C/.test(path)) return undefined;
  if (rules.escapedSlashes === "decode") path = path.replaceAll("%2F", "/").replaceAll("%5C", "\\");
  if (rules.backslashes === "convert") path = path.replaceAll("\\", "/");
  else if (rules.backslashes === "reject" && path.includes("\\")) return undefined;
  if (rules.pathParameters === "reject" && /;|%3B/.test(path)) return undefined;
  if (foreignDotSegment.test(path)) return undefined;
  if (rules.pathParameters === "strip") path = withoutParameters(path);
  if (rules.repeatedSlashes !== "merge" && path.includes("//")) {
    // Whether `..` takes an empty segment away is read in two ways.
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

/** RFC 3986 §5.2.4 over a path whose empty segments are dropped first, so that `/a//../b` is `/b` for everybody. */
function withoutDotSegments(path: string, repeatedSlashes: PathRules["repeatedSlashes"]): string {
  // The remaining ones are not next to a dot segment.
  if (repeatedSlashes === "keep" && path.includes("//")) return path;
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
