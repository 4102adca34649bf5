/**
 * What operators do not get to see: values that let someone else act as the client. Told by names, as there is nothing
 * else to tell them by; a name that merely looks like a secret's costs a readable value, no more.
 */
import { hash } from "node:crypto";
import type { ShownText } from "@gatewayproxy/admin-api/shape";

/** In place of a secret. */
export const redacted = "<redacted>";

/** Parts of the names of headers, parameters and claims that carry credentials. */
const secretName = /auth|cookie|key|token|secret|passw|pwd|session|credential|signature|^sig$|^code$/i;
/** Names that look like it and are harmless. */
const openNames = new Set([
  "sec-websocket-key",
  ":authority",
  "authority",
  "totaltokens",
  "inputtokens",
  "outputtokens",
]);

/** Whether what has this name may be a secret. */
export function isSecretName(name: string): boolean {
  return secretName.test(name) && !openNames.has(name.toLowerCase());
}

/** Whether the value of an expression may be a secret: it names something that is one. `source` is CEL. */
export function isSecretExpression(source: string): boolean {
  return (source.match(/[\w-]+/g) ?? []).some(isSecretName);
}

/** Headers as they may be shown. @param rawHeaders flat; pseudo-headers are left out. */
export function shownHeaders(rawHeaders: readonly string[]): { name: string; value: string }[] {
  const headers: { name: string; value: string }[] = [];
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] ?? "";
    if (!name.startsWith(":"))
      headers.push({ name, value: isSecretName(name) ? redacted : (rawHeaders[at + 1] ?? "") });
  }
  return headers;
}

/** A path with its query, whose secrets are taken out. */
export function shownPath(path: string): string {
  const query = path.indexOf("?");
  if (query === -1) return path;
  const parameters = path.slice(query + 1).split("&");
  return `${path.slice(0, query)}?${parameters.map(shownParameter).join("&")}`;
}

function shownParameter(parameter: string): string {
  const [name = ""] = parameter.split("=", 1);
  return isSecretName(decoded(name)) ? `${name}=${redacted}` : parameter;
}

/** What is encoded wrongly is looked at as it stands. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

const shownBytes = 64;
/** Of a shorter secret even four characters would tell too much. */
const shortestWithEnd = 16;

/** A value of a client's: as it is, or as a fingerprint (admin-api/shape.ts says how it is made). */
export function shownValue(value: string, isSecret: boolean): ShownText {
  const text = Buffer.from(value)
    .subarray(0, shownBytes)
    .toString()
    .replace(/\ufffd+$/, "");
  if (!isSecret) return { text, isSecret };
  const end = text.length >= shortestWithEnd ? text.slice(-4) : "";
  return { text: `sha256:${hash("sha256", text).slice(0, 8)}…${end}`, isSecret };
}
