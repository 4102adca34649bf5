/** Validates the fields of a header block, for both sides of a connection (RFC 9113 §8.2). */
import { isFieldValue as isHttp1FieldValue } from "../http1/characters.ts";

/** Connection-specific fields of HTTP/1, which HTTP/2 prohibits (§8.2.2). */
const connectionFields = new Set(["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"]);

/** Returns the first error in regular fields, [name, value, …]; undefined if there is none. */
export function fieldSectionError(fields: readonly string[]): string | undefined {
  for (let index = 0; index < fields.length; index += 2) {
    const name = fields[index] ?? "";
    const value = fields[index + 1] ?? "";
    if (!isFieldName(name)) {
      return "a field name is invalid or not in lower case";
    }
    if (connectionFields.has(name) || (name === "te" && value !== "trailers")) {
      return `${name} is a connection-specific field of HTTP/1`;
    }
    if (!isFieldValue(value)) {
      return `${name} has a character that is not allowed in a field value`;
    }
  }
  return undefined;
}

/**
 * Returns the first error in trailers: as `fieldSectionError`, and for a field of the framing or the routing of the
 * message, which a trailer section must not have (RFC 9110 §6.5.1). HTTP/1 rejects the same ones.
 */
export function trailerSectionError(fields: readonly string[]): string | undefined {
  for (let index = 0; index < fields.length; index += 2) {
    const name = fields[index];
    if (name === "content-length" || name === "host") return `${name} in the trailers`;
  }
  return fieldSectionError(fields);
}

/** Whether a name has only lower-case token characters (RFC 9110 §5.6.2). A late pseudo-header field has a colon. */
function isFieldName(name: string): boolean {
  return /^[!#$%&'*+\-.^_`|~0-9a-z]+$/.test(name);
}

/**
 * Whether a value has no control character except the tab, and no white space at either end (§8.2.1, RFC 9110 §5.5).
 * RFC 9113 requires less of a recipient, but the values that are received here may be forwarded over HTTP/1.
 */
export function isFieldValue(value: string): boolean {
  return isHttp1FieldValue(value) && !/^[ \t]|[ \t]$/.test(value);
}
