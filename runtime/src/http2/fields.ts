/** What the fields of a header block must be, whichever side sends them (RFC 9113 §8.2). */

/** Fields of one hop in HTTP/1, which have no meaning here (§8.2.2). */
const connectionFields = new Set(["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"]);

/** What is wrong with regular fields, [name, value, …]; undefined where nothing is. */
export function faultOfFields(fields: readonly string[]): string | undefined {
  for (let index = 0; index < fields.length; index += 2) {
    const name = fields[index] ?? "";
    const value = fields[index + 1] ?? "";
    if (!isFieldName(name)) {
      return "a field's name is not in lower case, or not a name";
    }
    if (connectionFields.has(name) || (name === "te" && value !== "trailers")) {
      return `${name} is a field of HTTP/1 connections`;
    }
    if (!isFieldValue(value)) {
      return `${name} holds a character that no field may hold`;
    }
  }
  return undefined;
}

/** Lower-case token characters (RFC 9110 §5.6.2); a colon, so a late pseudo field, is none. */
function isFieldName(name: string): boolean {
  return /^[!#$%&'*+\-.^_`|~0-9a-z]+$/.test(name);
}

/** No line break or NUL, and no blank at either end (§8.2.1). */
export function isFieldValue(value: string): boolean {
  return !/[\0\r\n]|^[ \t]|[ \t]$/.test(value);
}
