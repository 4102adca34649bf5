/** Classes of characters in HTTP/1 messages, as tables by code (RFC 9110 §5.6.2, §5.5; RFC 9112 §2.2). */

/** Characters of a token: methods, field names, and parameters of chunk extensions (RFC 9110 §5.6.2). */
export const tokenCharacters: Uint8Array = tableOf((code) =>
  /[!#$%&'*+\-.^_`|~0-9A-Za-z]/.test(String.fromCharCode(code)),
);

/** Characters of a field value: visible characters, space, horizontal tab and bytes above 0x7f (RFC 9110 §5.5). */
export const valueCharacters: Uint8Array = tableOf((code) => code === 0x09 || (code >= 0x20 && code !== 0x7f));

/**
 * Characters of a request target: visible ASCII. RFC 3986 permits fewer, and `normalizePath` decides about those. Bytes
 * above 0x7f are rejected, since servers disagree about their encoding.
 */
export const targetCharacters: Uint8Array = tableOf((code) => code > 0x20 && code < 0x7f);

function tableOf(contains: (code: number) => boolean): Uint8Array {
  return Uint8Array.from({ length: 256 }, (_, code) => (contains(code) ? 1 : 0));
}

/** Whether all characters of a part of a text are in a class. */
export function isOf(table: Uint8Array, text: string, start: number, end: number): boolean {
  for (let at = start; at < end; at++) {
    if (table[text.charCodeAt(at)] !== 1) return false;
  }
  return true;
}

// Whole strings are checked by regular expressions. They take a quarter of the time of a loop if V8 has several
// internal representations of the strings, as of names and values.

const token = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const target = /^[!-~]+$/;
const notFieldValue = /[^\t\x20-\x7e\x80-\xff]/;

/** Whether a text is a token (RFC 9110 §5.6.2). */
export function isToken(text: string): boolean {
  return token.test(text);
}

/** Whether a text can be sent as a request target. */
export function isTarget(text: string): boolean {
  return target.test(text);
}

/** Whether a text can be sent as a field value. */
export function isFieldValue(text: string): boolean {
  return !notFieldValue.test(text);
}
