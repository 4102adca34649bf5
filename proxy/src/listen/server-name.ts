/** The server name of a TLS handshake (SNI, RFC 6066 §3). */

/** RFC 6066 limits a name to its vector; one of DNS has at most 253 characters, and the final dot. */
const maxLength = 255;

/**
 * Returns the one spelling of a server name, in lower case and without the final dot; undefined if it is no name of
 * DNS: it is empty or too long, or has an empty label, a port, or other characters than letters, digits, `-` and `_`.
 * Limits count by it, so that a client that spells a name in many ways has one counter.
 */
export function serverNameOf(text: string): string | undefined {
  const name = text.endsWith(".") ? text.slice(0, -1) : text;
  if (text.length > maxLength) return undefined;
  const labels = name.split(".");
  return labels.every((label) => /^[A-Za-z0-9_-]+$/.test(label)) ? name.toLowerCase() : undefined;
}
