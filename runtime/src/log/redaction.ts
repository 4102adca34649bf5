/**
 * Redacts credentials: values with which someone else could act as a client or as the operator. One list of names
 * applies to headers, query parameters, descriptor entries and expressions, in dumps, traces and logs. A harmless name
 * that looks like a secret's only costs a readable value.
 */
import { trimEnd } from "../text/trim-end.ts";
import { hash } from "node:crypto";

/** Replaces a secret. */
export const redacted = "<redacted>";

/**
 * The maximum length in characters of a shown text. The work of inspecting a text grows with its length, and
 * a client chooses the text. So its length is bounded first.
 */
export const maxShownLength = 2_048;

/**
 * Cuts a text to `maxShownLength`, at a separator: half of a secret no longer looks like one. No secret that is
 * recognized by its form, and no user information, contains these separators.
 */
function truncate(text: string): string {
  if (text.length <= maxShownLength) return text;
  return `${text.slice(0, maxShownLength).replace(lastPiece, "")}…`;
}

/** The longest end without a separator. The look-behind makes all starts but one fail at once. */
const lastPiece = /(?<=^|[/?#\s"'<>])[^/?#\s"'<>]+$/;

/**
 * Parts of secret names, anywhere in the name. Pages in browsers cannot set other fields of a WebSocket than its
 * protocols.
 */
const secretPart =
  /auth|cookie|key|token|secret|passw|passphrase|pwd|pswd|connection[-_]?string|session|credential|signature|bearer|jwt|jws|saml|assertion|csrf|xsrf|dpop|hmac|websocket-protocol/;
/** Whole words of secret names. */
const secretWords = new Set([
  ...[
    "access",
    "code",
    "cred",
    "creds",
    "iam",
    "dsn",
    "mfa",
    "nonce",
    "otp",
    "pass",
    "pin",
    "pw",
    "sas",
    "sid",
    "sig",
    "sign",
    "ticket",
    "totp",
  ],
]);
/** Harmless names that contain such parts. */
const harmlessName =
  /^(?::?authority|sec-websocket-key|(?:total|input|output)tokens|access-control-.*|(?:x-)?statuscode)$/;

/** Names of headers that the configuration says hold credentials, in lower case. */
let configuredNames: ReadonlySet<string> = new Set<string>();
/** Names that were configured before, the latest ones last. */
const previousNames = new Set<string>();
/** Bounds the memory of previous names. */
const maxPreviousNames = 1_024;
/** The number of changes of the names. */
let namesVersion = 0;

/**
 * Makes values with these names secrets in this thread, in place of those of the last call. Those stay secrets as well,
 * up to a number, since clients send a credential for longer than the configuration names its header.
 */
export function setSecretNames(names: Iterable<string>): void {
  const before = configuredNames;
  const current = new Set(Array.from(names, (name) => name.toLowerCase()));
  if (current.size === before.size && Array.from(current).every((name) => before.has(name))) return;
  for (const name of before) {
    previousNames.delete(name);
    if (!current.has(name)) previousNames.add(name);
  }
  for (const name of previousNames) {
    if (previousNames.size <= maxPreviousNames) break;
    previousNames.delete(name);
  }
  configuredNames = current;
  namesVersion++;
}

/** Whether a value with this name may be a secret. */
export function isSecretName(name: string): boolean {
  const lower = name.toLowerCase();
  if (configuredNames.has(lower) || previousNames.has(lower)) return true;
  if (harmlessName.test(lower)) return false;
  const words = wordsOf(name);
  const letters = lower.includes("token") ? words.filter(isNoTokenCount).join("") : lower;
  if (secretPart.test(letters) || letters.endsWith("pw") || letters.endsWith("pass")) return true;
  return words.some((word) => secretWords.has(word));
}

/** Returns the words of `user_id`, `user-id` and `userId`. */
function wordsOf(name: string): readonly string[] {
  return name
    .replaceAll(/([a-z0-9])([A-Z])/g, "$1 $2")
    .toLowerCase()
    .split(/[^a-z]+/);
}

/** Kinds of tokens that are credentials, also in the plural. */
const credentialTokens = new Set(["access", "refresh", "id", "api", "device", "push", "reset", "invite"]);
const quantities = new Set(["count", "counts", "limit", "limits", "budget", "quota", "usage", "cost", "rate", "per"]);

/** Whether a word is not about LLM tokens, which are counted and not secret, as in `user_tokens` and `token_limit`. */
function isNoTokenCount(word: string, at: number, words: readonly string[]): boolean {
  if (word === "tokens") return credentialTokens.has(words[at - 1] ?? "");
  return word !== "token" || !quantities.has(words[at + 1] ?? "");
}

/**
 * Values that are credentials by their form: of an authorization scheme, a JWT, an API key with a well-known prefix. No
 * quantifier is open at its end, so the search is linear.
 */
const secretValue =
  /(?:^|,)\s*(?:bearer|basic|digest|negotiate|dpop)\s+\S|\beyJ[\w-]{16}|\b(?:sk|pk|rk)[-_][\w-]{16}|\b(?:gh[oprsu]|github_pat|xox[abeprs]|glpat|hf|AKIA|AIza)[-_]?[\w-]{16}|\b(?:gsk|r8|tgp|fw|npm|whsec)_[\w-]{16}|\b(?:xai|pplx|nvapi|xapp|gl(?:pat|dt|rtr?|cbt|ptt|ft|imt|agent|wt|soat|ffct|oas))-[\w-]{16}|\bya29\.[\w-]{16}|\bASIA[A-Z0-9]{16}|\bdapi[0-9a-f]{32}|-----BEGIN[ +A-Z]{1,24}KEY/i;

/** Whether a value is a credential by its form, whatever its name. */
export function isSecretValue(value: string): boolean {
  return secretValue.test(value);
}

/**
 * Whether the value of a CEL expression may be a secret: the expression contains a secret name. The variables `jwt` and
 * `apiKey` are verified identities and no credentials, so only the names of their members count.
 */
export function isSecretExpression(source: string): boolean {
  const names = source.replaceAll(identityVariable, "").match(/[\w-]+/g) ?? [];
  return names.some(isSecretName);
}

/**
 * Returns a function that says whether the value of an expression may be a secret, as `isSecretExpression` does. It
 * reads the expression again only after the names of `setSecretNames` have changed.
 */
export function secretExpressionCheck(source: string): () => boolean {
  let isSecret = false;
  let version = -1;
  return () => {
    if (version !== namesVersion) {
      version = namesVersion;
      isSecret = isSecretExpression(source);
    }
    return isSecret;
  };
}

/** The variables themselves, not a header or a parameter of that name. */
const identityVariable = /(?<![\w.'"-])(?:jwt|apiKey)(?=\s*[.[])/g;

/** Returns the value of a header or parameter as it may be shown, cut after `maxShownLength` characters. */
export function redactNamed(name: string, value: string): string {
  const text = truncate(value);
  return isSecretName(name) || isSecretValue(text) ? redacted : redactUrl(text, maxNesting);
}

/** Matches every text that `isSecretValue` or `redactPath` would change. Other texts need no full inspection. */
const suspiciousText =
  /[=@%\\]|eyJ|[spr]k[-_]|gh[oprsu]|github_pat|xox|glpat|hf|AKIA|AIza|(?:r8|tgp|fw|npm|whsec)_|(?:xai|pplx|nvapi|xapp|gl(?:pat|dt|rtr?|cbt|ptt|ft|imt|agent|wt|soat|ffct|oas))-|ya29|ASIA|dapi|-BEGIN|bearer|basic|digest|negotiate|dpop/i;

/**
 * Redacts text from a client that has no name: host, path, method, user agent. Nearly all texts pass a cheap test and
 * are returned unchanged. Cut after `maxShownLength` characters.
 */
export function redactText(whole: string): string {
  const text = truncate(whole);
  if (!suspiciousText.test(text) && (!text.includes(":") || hostAndPort.test(text))) return text;
  if (scheme.test(text)) return redacted;
  // Words that are not secret stay, and so do parameter names.
  const words = text.replaceAll(/[^\s/]+/g, (word) => (!/[?=#]/.test(word) && isSecretValue(word) ? redacted : word));
  const shown = redactUrl(words, maxNesting);
  return isSecretValue(shown) ? redacted : shown;
}

/** The form of most hosts in requests. */
const hostAndPort = /^[\w.-]+:\d{1,5}$/;

/** The start of a credential with an authorization scheme. */
const scheme = /^\s*(?:bearer|basic|digest|negotiate|dpop)\s+\S/i;

/** Returns headers as they may be shown, without pseudo-headers. @param rawHeaders flat: name, value, … */
export function redactHeaders(rawHeaders: readonly string[]): { name: string; value: string }[] {
  const headers: { name: string; value: string }[] = [];
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] ?? "";
    if (!name.startsWith(":")) headers.push({ name, value: redactNamed(name, rawHeaders[at + 1] ?? "") });
  }
  return headers;
}

/**
 * A name followed by `=` or `:`: of a parameter in a query, a fragment, a path segment (RFC 3986 §3.3) or a list, of a
 * parameter inside another parameter's value, or of a JSON member, with its quotes. The look-behind makes each start
 * inside a name fail at once.
 */
const parameterName = /(?<=^|[?&;#,\s/=:{"'\\])((?:\\u[\da-f]{4}|[^?&;#,\s=:/{"'\\])+)["'\\\s]*[=:]/gi;
/**
 * The value of a secret. It may contain list separators, and quotes, which `encodeURIComponent` does not encode. Only a
 * parser could find the end of a list, an object or a string with escaped quotes, so they extend to the end of the
 * text.
 */
const secretParameter =
  /\s*(?:[[{\\][^]*|"(?:[^"\\]|\\[^])*"?|'(?:[^'\\]|\\[^])*'?|(?:(?:bearer|basic|digest|negotiate|dpop)\s+)?[^&#\s]*)/iy;
/** Any other value is inspected up to the next separator, so that no part is read twice. */
const otherParameter = /[^?&;#,\s/]*/y;
/** Possible user information of a URL (RFC 3986 §3.2.1), with the text before it up to a separator. */
const beforeAt = /(?<=^|[/\\?#\s"'<>])[^/\\?#\s"'<>]*@/g;
/** Clients read `\` as `/` after these, and need neither (WHATWG URL, "special authority ignore slashes state"). */
const specialScheme = /(?:https?|wss?|ftp):/i;
const specialSchemeEnd = /(?:[/\\]|(?:https?|wss?|ftp):)[/\\]$/i;
/** How many URLs may be nested: a parameter may contain an encoded URL, which may contain another. */
const maxNesting = 2;
/** Layers of percent-encoding that are decoded. A value with more of them is redacted. */
const maxLayers = 3;
/** Parameters of a text that are inspected. Further ones are redacted, which bounds the work. */
const maxParameters = 100;

/**
 * Redacts a path, a URL or a text that contains some (`Location`, `Referer`, `Link`): secrets in queries, fragments and
 * path parameters, user information, and segments that are credentials by their form. Cut after `maxShownLength`
 * characters.
 */
export function redactPath(path: string): string {
  return redactUrl(truncate(path), maxNesting);
}

function redactUrl(text: string, nesting: number): string {
  return withoutParameters(withoutUserInfo(text), nesting)
    .split("/")
    .map((segment) => redactSegment(segment, nesting))
    .join("/");
}

function withoutUserInfo(text: string): string {
  if (!text.includes("@")) return text;
  return text.replaceAll(beforeAt, (run: string, at: number) => {
    if (specialSchemeEnd.test(text.slice(Math.max(0, at - 7), at))) return `${redacted}@`;
    const scheme = specialScheme.exec(run);
    return scheme === null ? run : `${run.slice(0, scheme.index + scheme[0].length)}${redacted}@`;
  });
}

/** Redacts the parameters of a segment, with what follows the path. */
function redactSegment(segment: string, nesting: number): string {
  if (!/[?=#]/.test(segment)) return containsSecret(segment, nesting) ? redacted : segment;
  let count = 0;
  return segment.replaceAll(/[^?#;&]+/g, (piece) =>
    !piece.includes("=") && (++count > maxParameters || containsSecret(piece, nesting)) ? redacted : piece,
  );
}

function withoutParameters(text: string, nesting: number): string {
  let shown = "";
  let end = 0;
  let count = 0;
  /** The end of the values of other names that are inspected. */
  let inspectedEnd = 0;
  for (const { 0: match, 1: name = "", index } of text.matchAll(parameterName)) {
    if (index < end) continue;
    const start = index + match.length;
    if (++count > maxParameters) return `${shown}${text.slice(end, start)}${redacted}`;
    if (!namesSecret(name)) {
      if (start < inspectedEnd || !match.endsWith("=")) continue;
      const value = textAt(otherParameter, text, start);
      inspectedEnd = start + value.length;
      if (!containsSecret(value, nesting)) continue;
    }
    shown += text.slice(end, start) + redacted;
    end = start + textAt(secretParameter, text, start).length;
  }
  return shown + text.slice(end);
}

function textAt(sticky: RegExp, text: string, start: number): string {
  sticky.lastIndex = start;
  return sticky.exec(text)?.[0] ?? "";
}

function namesSecret(name: string): boolean {
  const layers = layersOf(name);
  return isTooDeep(layers) || isSecretName(layers.at(-1) ?? "");
}

function containsSecret(value: string, nesting: number): boolean {
  const layers = layersOf(value);
  if (isTooDeep(layers) || layers.some(isSecretValue)) return true;
  return nesting > 0 && layers.some((plain, layer) => layer > 0 && redactUrl(plain, nesting - 1) !== plain);
}

/**
 * Returns a text and each layer of its percent-encoding and JSON escapes decoded; one layer more than are inspected.
 */
function layersOf(text: string): readonly string[] {
  const layers = [text];
  for (let inner = decode(text); inner !== layers.at(-1) && !isTooDeep(layers); inner = decode(inner)) {
    layers.push(inner);
  }
  return layers;
}

function isTooDeep(layers: readonly string[]): boolean {
  return layers.length > maxLayers + 1;
}

/** An escaped ASCII character in a JSON string (RFC 8259 §7). */
const jsonEscapes = /\\u00([0-7][\da-f])/gi;

function asciiOf(_escape: string, digits: string): string {
  return String.fromCharCode(Number.parseInt(digits, 16));
}

/** One or more percent-encoded bytes. */
const escapes = /(?:%[\da-f]{2})+/gi;

/**
 * Decodes percent-encoding and JSON escapes. Invalid escapes stay, and bytes that are not UTF-8 become U+FFFD.
 * `decodeURIComponent` throws for both, and then decodes nothing of a text that a backend may decode in part.
 */
function decode(text: string): string {
  const plain = text.includes("\\u") ? text.replaceAll(jsonEscapes, asciiOf) : text;
  if (!plain.includes("%")) return plain;
  return plain.replaceAll(escapes, (run) => Buffer.from(run.replaceAll("%", ""), "hex").toString());
}

/** Whether a text is a secret by its form, or has a parameter with the name of one, or user information. */
function showsSecret(text: string): boolean {
  return isSecretValue(text) || (/[=:@]/.test(text) && withoutParameters(withoutUserInfo(text), 0) !== text);
}

const shownBytes = 64;
/** The minimum length of a secret whose last four characters are shown: of a shorter one they would reveal too much. */
const minLengthWithEnd = 16;

/** Returns a value of a client as it is, or as a fingerprint that anyone who knows the secret can compute. */
export function redactValue(value: string, isSecret: boolean): { readonly text: string; readonly isSecret: boolean } {
  // A character has at least one byte. What looks like a secret may begin before the cut and end after it.
  const text = trimEnd(Buffer.from(value.slice(0, shownBytes)).subarray(0, shownBytes).toString(), /\ufffd/);
  if (!isSecret && !showsSecret(value.slice(0, maxShownLength))) return { text, isSecret };
  const end = text.length >= minLengthWithEnd ? text.slice(-4) : "";
  return { text: `sha256:${hash("sha256", text).slice(0, 8)}…${end}`, isSecret: true };
}
