/**
 * The groups of the key exchange that TLS termination offers, and whether a ClientHello gets a HelloRetryRequest
 * (RFC 8446 §4.1.4): its client has sent no key for the group that OpenSSL chooses, and has to send a second one.
 */

/**
 * The groups in the order of preference, in tuples. They are the defaults of OpenSSL 3.5, written out so that no other
 * version changes what `asksForRetry` computes.
 */
const tuples: readonly (readonly { readonly name: string; readonly id: number }[])[] = [
  [{ name: "X25519MLKEM768", id: 0x11ec }],
  [
    { name: "X25519", id: 0x1d },
    { name: "secp256r1", id: 0x17 },
  ],
  [
    { name: "X448", id: 0x1e },
    { name: "secp384r1", id: 0x18 },
    { name: "secp521r1", id: 0x19 },
  ],
  [
    { name: "ffdhe2048", id: 0x100 },
    { name: "ffdhe3072", id: 0x101 },
  ],
];

/** For `ecdhCurve` of node:tls. A build of OpenSSL without a group leaves it out (`?`). */
export const offeredGroups = tuples.map((tuple) => tuple.map(({ name }) => `?${name}`).join(":")).join("/");

/**
 * Whether a server of TLS 1.3 asks for a second ClientHello. OpenSSL takes a group of the first tuple that has one
 * which the client supports, and asks for its key if it has none of that tuple.
 *
 * @param supported by the client.
 * @param shares the groups for which it has sent keys.
 */
export function asksForRetry(supported: ReadonlySet<number>, shares: ReadonlySet<number>): boolean {
  for (const tuple of tuples) {
    const common = tuple.filter(({ id }) => supported.has(id));
    if (common.length > 0) return !common.some(({ id }) => shares.has(id));
  }
  return false;
}
