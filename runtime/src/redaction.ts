/**
 * What operators do not get to see: values that let someone else act as a client or as the operator. One list of names
 * for headers, query parameters, descriptor entries and expressions, whatever shows them: dumps, traces, logs. A name
 * that merely looks like a secret's costs a readable value, no more.
 */
import { trimEnd } from "./trim-end.ts";
import { hash } from "node:crypto";

/** In place of a secret. */
export const redacted = "<redacted>";

/**
 * Characters of a text that are looked at and shown. The look costs some microseconds per hundred characters, several
 * times in each request, and a client chooses the text: so its length has a bound before anything else happens.
 */
export const maxShownLength = 2_048;

/**
 * The text within `maxShownLength`. The piece that the cut goes through is left out whole, because half of a secret no
 * longer looks like one. No secret that is recognized by its form, and no user information, contains these separators.
 */
function bounded(text: string): string {
  if (text.length <= maxShownLength) return text;
  return `${text.slice(0, maxShownLength).replace(lastPiece, "")}…`;
}

/** The longest end without a separator. The look-behind makes each start but one fail at once. */
const lastPiece = /(?<=^|[/?#\s"'<>])[^/?#\s"'<>]+$/;

/** Parts of names, wherever they stand. */
const secretPart =
  /auth|cookie|key|token|secret|passw|passphrase|pwd|pswd|connection[-_]?string|session|credential|signature|bearer|jwt|jws|saml|assertion|csrf|xsrf|dpop|hmac/;
/** Whole words of names. */
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
/** Names that look like it and are harmless. */
const openName = /^(?::?authority|sec-websocket-key|(?:total|input|output)tokens|access-control-.*|(?:x-)?statuscode)$/;

/** Whether what has this name may be a secret. */
export function isSecretName(name: string): boolean {
  const lower = name.toLowerCase();
  if (openName.test(lower)) return false;
  const words = wordsOf(name);
  const letters = lower.includes("token") ? words.filter(isNoTokenCount).join("") : lower;
  if (secretPart.test(letters) || letters.endsWith("pw") || letters.endsWith("pass")) return true;
  return words.some((word) => secretWords.has(word));
}

/** The words of `user_id`, `user-id` and `userId`. */
function wordsOf(name: string): readonly string[] {
  return name
    .replaceAll(/([a-z0-9])([A-Z])/g, "$1 $2")
    .toLowerCase()
    .split(/[^a-z]+/);
}

/** Kinds of tokens that are credentials, also where there are several. */
const credentialTokens = new Set(["access", "refresh", "id", "api", "device", "push", "reset", "invite"]);
const quantities = new Set(["count", "counts", "limit", "limits", "budget", "quota", "usage", "cost", "rate", "per"]);

/** False for the word that names LLM tokens, which are counted and no secret: in `user_tokens`, in `token_limit`. */
function isNoTokenCount(word: string, at: number, words: readonly string[]): boolean {
  if (word === "tokens") return credentialTokens.has(words[at - 1] ?? "");
  return word !== "token" || !quantities.has(words[at + 1] ?? "");
}

/**
 * Values that are credentials by their form: of an authorization scheme, a JWT, an API key with a well-known prefix. No
 * quantifier is open at its end, so that the search is linear.
 */
const secretValue =
  /(?:^|,)\s*(?:bearer|basic|digest|negotiate|dpop)\s+\S|\beyJ[\w-]{16}|\b(?:sk|pk|rk)[-_][\w-]{16}|\b(?:gh[oprsu]|github_pat|xox[abeprs]|glpat|hf|AKIA|AIza)[-_]?[\w-]{16}|\b(?:gsk|r8|tgp|fw|npm|whsec)_[\w-]{16}|\b(?:xai|pplx|nvapi|xapp|gl(?:pat|dt|rtr?|cbt|ptt|ft|imt|agent|wt|soat|ffct|oas))-[\w-]{16}|\bya29\.[\w-]{16}|\bASIA[A-Z0-9]{16}|\bdapi[0-9a-f]{32}|-----BEGIN[ +A-Z]{1,24}KEY/i;

/** Whether a value is a credential by its form, whatever its name. */
export function isSecretValue(value: string): boolean {
  return secretValue.test(value);
}

/** Whether the value of an expression may be a secret: it names something that is one. `source` is CEL. */
export function isSecretExpression(source: string): boolean {
  return (source.match(/[\w-]+/g) ?? []).some(isSecretName);
}

/** The value of a header or parameter of that name as it may be shown, cut after `maxShownLength` characters. */
export function shownNamed(name: string, value: string): string {
  const text = bounded(value);
  return isSecretName(name) || isSecretValue(text) ? redacted : shownUrl(text, maxNesting);
}

/** What every text has that `isSecretValue` or `shownPath` would change: the thorough look costs microseconds. */
const hint =
  /[=@%\\]|eyJ|[spr]k[-_]|gh[oprsu]|github_pat|xox|glpat|hf|AKIA|AIza|(?:r8|tgp|fw|npm|whsec)_|(?:xai|pplx|nvapi|xapp|gl(?:pat|dt|rtr?|cbt|ptt|ft|imt|agent|wt|soat|ffct|oas))-|ya29|ASIA|dapi|-BEGIN|bearer|basic|digest|negotiate|dpop/i;

/**
 * A text of a client's of which no name tells more: its host, path, method, user agent. Nearly all are shown as they are,
 * after a cheap look. Cut after `maxShownLength` characters.
 */
export function shownText(whole: string): string {
  const text = bounded(whole);
  if (!hint.test(text) && (!text.includes(":") || hostAndPort.test(text))) return text;
  if (scheme.test(text)) return redacted;
  // Words that are none stay, and names of parameters.
  const words = text.replaceAll(/[^\s/]+/g, (word) => (!/[?=#]/.test(word) && isSecretValue(word) ? redacted : word));
  const shown = shownUrl(words, maxNesting);
  return isSecretValue(shown) ? redacted : shown;
}

/** Which most hosts of requests are. */
const hostAndPort = /^[\w.-]+:\d{1,5}$/;

/** What credentials of an authorization scheme begin with. */
const scheme = /^\s*(?:bearer|basic|digest|negotiate|dpop)\s+\S/i;

/** Headers as they may be shown. @param rawHeaders flat; pseudo-headers are left out. */
export function shownHeaders(rawHeaders: readonly string[]): { name: string; value: string }[] {
  const headers: { name: string; value: string }[] = [];
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] ?? "";
    if (!name.startsWith(":")) headers.push({ name, value: shownNamed(name, rawHeaders[at + 1] ?? "") });
  }
  return headers;
}

/**
 * A name with the `=` or `:` behind it: of a parameter in a query, a fragment, a path segment (RFC 3986 §3.3) or a list, of a
 * parameter inside of another's value, or of a member of JSON, with its quotes. The look-behind makes each start in the
 * middle of a name fail at once.
 */
const parameterName = /(?<=^|[?&;#,\s/=:{"'\\])((?:\\u[\da-f]{4}|[^?&;#,\s=:/{"'\\])+)["'\\\s]*[=:]/gi;
/**
 * The value of a secret. It may hold separators of lists, and quotes, which `encodeURIComponent` leaves as they are. Nobody
 * knows where a list, an object or a string with escaped quotes ends without parsing it, so they end with the text.
 */
const secretParameter =
  /\s*(?:[[{\\][^]*|"(?:[^"\\]|\\[^])*"?|'(?:[^'\\]|\\[^])*'?|(?:(?:bearer|basic|digest|negotiate|dpop)\s+)?[^&#\s]*)/iy;
/** Another value is looked at up to the next separator, so that none is read twice. */
const openParameter = /[^?&;#,\s/]*/y;
/** What may be user and password of a URL (RFC 3986 §3.2.1), with what stands before them up to a separator. */
const beforeAt = /(?<=^|[/\\?#\s"'<>])[^/\\?#\s"'<>]*@/g;
/** Clients take `\` for `/` behind these, and do without any (WHATWG URL, "special authority ignore slashes state"). */
const specialScheme = /(?:https?|wss?|ftp):/i;
const specialSchemeEnd = /(?:[/\\]|(?:https?|wss?|ftp):)[/\\]$/i;
/** A parameter may hold a URL that is encoded, which may hold one again. */
const maxNesting = 2;
/** Layers of percent-encoding that are looked through; a value with more of them is not shown. */
const maxLayers = 3;
/** Parameters of a text that are looked at, each for about a microsecond; those behind are not shown. */
const maxParameters = 100;

/**
 * A path, a URL or a text that holds some (`Location`, `Referer`, `Link`), without the secrets in its queries, fragments
 * and path parameters, without user and password, and without segments that are credentials by their form. Cut after
 * `maxShownLength` characters.
 */
export function shownPath(path: string): string {
  return shownUrl(bounded(path), maxNesting);
}

function shownUrl(text: string, nesting: number): string {
  return withoutParameters(withoutUserInfo(text), nesting)
    .split("/")
    .map((segment) => shownSegment(segment, nesting))
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

/** A segment whose parameters have been looked at, with what follows the path. */
function shownSegment(segment: string, nesting: number): string {
  if (!/[?=#]/.test(segment)) return holdsSecret(segment, nesting) ? redacted : segment;
  let count = 0;
  return segment.replaceAll(/[^?#;&]+/g, (piece) =>
    !piece.includes("=") && (++count > maxParameters || holdsSecret(piece, nesting)) ? redacted : piece,
  );
}

function withoutParameters(text: string, nesting: number): string {
  let shown = "";
  let end = 0;
  let count = 0;
  /** Up to where values of other names have been looked at. */
  let openEnd = 0;
  for (const { 0: match, 1: name = "", index } of text.matchAll(parameterName)) {
    if (index < end) continue;
    const start = index + match.length;
    if (++count > maxParameters) return `${shown}${text.slice(end, start)}${redacted}`;
    if (!namesSecret(name)) {
      if (start < openEnd || !match.endsWith("=")) continue;
      const value = textAt(openParameter, text, start);
      openEnd = start + value.length;
      if (!holdsSecret(value, nesting)) continue;
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

function holdsSecret(value: string, nesting: number): boolean {
  const layers = layersOf(value);
  if (isTooDeep(layers) || layers.some(isSecretValue)) return true;
  return nesting > 0 && layers.some((plain, layer) => layer > 0 && shownUrl(plain, nesting - 1) !== plain);
}

/** A text as it stands, and with each layer of its percent-encoding and of escapes of JSON taken off; one layer more than is looked through. */
function layersOf(text: string): readonly string[] {
  const layers = [text];
  for (let inner = decoded(text); inner !== layers.at(-1) && !isTooDeep(layers); inner = decoded(inner)) {
    layers.push(inner);
  }
  return layers;
}

function isTooDeep(layers: readonly string[]): boolean {
  return layers.length > maxLayers + 1;
}

/** An ASCII character in a string of JSON (RFC 8259 §7). */
const jsonEscapes = /\\u00([0-7][\da-f])/gi;

function asciiOf(_escape: string, digits: string): string {
  return String.fromCharCode(Number.parseInt(digits, 16));
}

/** One or more escaped bytes. */
const escapes = /(?:%[\da-f]{2})+/gi;

/**
 * Decoded from percent-encoding and JSON; what is no escape stays, and bytes that are no UTF-8 become U+FFFD. `decodeURIComponent` throws at
 * either, which takes microseconds each time, and then decodes nothing of a text that a backend may decode in part.
 */
function decoded(text: string): string {
  const plain = text.includes("\\u") ? text.replaceAll(jsonEscapes, asciiOf) : text;
  if (!plain.includes("%")) return plain;
  return plain.replaceAll(escapes, (run) => Buffer.from(run.replaceAll("%", ""), "hex").toString());
}

const shownBytes = 64;
/** Of a shorter secret even four characters would tell too much. */
const shortestWithEnd = 16;

/** A value of a client's: as it is, or as a fingerprint by which who knows it finds it. */
export function shownValue(value: string, isSecret: boolean): { readonly text: string; readonly isSecret: boolean } {
  // No character takes less than a byte. What looks like a secret may begin before the cut and end behind it.
  const text = trimEnd(Buffer.from(value.slice(0, shownBytes)).subarray(0, shownBytes).toString(), /\ufffd/);
  if (!isSecret && !isSecretValue(value.slice(0, maxShownLength))) return { text, isSecret };
  const end = text.length >= shortestWithEnd ? text.slice(-4) : "";
  return { text: `sha256:${hash("sha256", text).slice(0, 8)}…${end}`, isSecret: true };
}
