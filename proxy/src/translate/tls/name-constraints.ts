/** Counts the name constraints of a certificate (RFC 5280 §4.2.1.10), which node:crypto does not show. */

/** 2.5.29.30 */
const oid = Buffer.from([0x06, 0x03, 0x55, 0x1d, 0x1e]);

const tags = { boolean: 0x01, octets: 0x04, sequence: 0x30, permitted: 0xa0, excluded: 0xa1 };

/** @param der of a certificate. @returns Infinity if they are not in DER. */
export function nameConstraintsIn(der: Buffer): number {
  let count = 0;
  for (let at = der.indexOf(oid); at !== -1; at = der.indexOf(oid, at + oid.length)) {
    const value = elementsOf(der.subarray(at + oid.length), 2)?.find(({ tag }) => tag === tags.octets);
    const [sequence] = (value && elementsOf(value.content, 1)) ?? [];
    const subtrees = sequence?.tag === tags.sequence ? elementsOf(sequence.content) : undefined;
    if (subtrees === undefined) return Infinity;
    for (const { tag, content } of subtrees) {
      if (tag !== tags.permitted && tag !== tags.excluded) continue;
      count += elementsOf(content)?.length ?? Infinity;
    }
  }
  return count;
}

interface Element {
  readonly tag: number;
  readonly content: Buffer;
}

/** Returns the first elements of DER bytes (X.690 §10.1), or all; undefined if they are not DER. */
function elementsOf(der: Buffer, most = Infinity): readonly Element[] | undefined {
  const elements: Element[] = [];
  for (let at = 0; at < der.length && elements.length < most; ) {
    const [tag = 0, short = 0x80] = der.subarray(at, at + 2);
    const bytes = short < 0x80 ? 0 : short & 0x7f;
    if (short === 0x80 || bytes > 4 || at + 2 + bytes > der.length) return undefined;
    const start = at + 2 + bytes;
    const length = bytes === 0 ? short : der.readUIntBE(at + 2, bytes);
    // The bytes after the first elements are not needed.
    if (start + length > der.length) return elements.length > 0 && most !== Infinity ? elements : undefined;
    elements.push({ tag, content: der.subarray(start, start + length) });
    at = start + length;
  }
  return elements;
}
