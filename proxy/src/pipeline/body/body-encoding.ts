/** The coding of request bodies, whose text can be read only without one. */

/**
 * Returns whether a `content-encoding` other than `identity` is in a header section.
 *
 * @param headers Names, in any case, and values alternate.
 */
export function isEncoded(headers: readonly string[]): boolean {
  return headers.some(
    (name, at) =>
      at % 2 === 0 &&
      // Compares the length first, which avoids a lower-case copy of most names.
      name.length === 16 &&
      name.toLowerCase() === "content-encoding" &&
      headers[at + 1]?.toLowerCase() !== "identity",
  );
}
