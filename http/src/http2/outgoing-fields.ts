/** Converts the fields of a message, or of trailers, to HTTP/2 (RFC 9113 §8.2, §8.3.2). */
import { firstLetterOf, letters } from "../fields.ts";
import { isFieldValue, isToken } from "../http1/characters.ts";
import type { FieldList } from "../ports.ts";
import { dateText } from "../date-text.ts";

/**
 * Returns the fields of a response head, with the status first and `date` if it is absent (RFC 9110 §6.6.1).
 *
 * @param nowMs wall time.
 * @throws as `outgoingFields`.
 */
export function responseHeadFields(status: number, fields: FieldList, nowMs: number): string[] {
  const head = interimHeadFields(status, fields);
  for (let at = 2; at < head.length; at += 2) if (head[at] === "date") return head;
  head.push("date", dateText(nowMs));
  return head;
}

/** Returns the fields of an interim response (RFC 9110 §15.2). @throws as `outgoingFields`. */
export function interimHeadFields(status: number, fields: FieldList): string[] {
  return appendFields([":status", String(status)], fields);
}

/**
 * Returns the fields with names in lower case, and without those of an HTTP/1 connection.
 *
 * @throws `TypeError` for an invalid name or value, such as one with a line break.
 */
export function outgoingFields(fields: FieldList): string[] {
  return appendFields([], fields);
}

/** As `outgoingFields`, but appends the fields to `target`. @returns `target`. */
export function appendFields(target: string[], fields: FieldList): string[] {
  for (let at = 0; at + 1 < fields.length; at += 2) {
    const name = (fields[at] ?? "").toLowerCase();
    const value = fields[at + 1] ?? "";
    if (isOfHttp1(name)) continue;
    if (!isToken(name)) {
      throw new TypeError(`a header field has the name ${JSON.stringify(name)}, which is not a token`);
    }
    if (!isFieldValue(value)) {
      throw new TypeError(
        `the header field ${name} has a value with a control character, or one outside of ISO 8859-1`,
      );
    }
    target.push(name, value);
  }
  return target;
}

/** RFC 9113 §8.2.2 */
function isOfHttp1(name: string): boolean {
  switch (firstLetterOf(name)) {
    case letters.c:
      return name === "connection";
    case letters.k:
      return name === "keep-alive";
    case letters.p:
      return name === "proxy-connection";
    case letters.t:
      return name === "transfer-encoding";
    case letters.u:
      return name === "upgrade";
    default:
      return false;
  }
}
