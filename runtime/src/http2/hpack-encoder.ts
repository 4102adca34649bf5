/**
 * Writes header blocks (HPACK, RFC 7541) without a dynamic table: a block then depends on its fields alone, so the blocks
 * of ordinary answers are made once for all connections. Text goes plain; answers are a few dozen bytes.
 */
import { staticTable } from "./static-table.ts";

const indexOfField = new Map(staticTable.map(([name, value], index) => [`${name}\0${value}`, index + 1]));
/** The first entry of a name; the reverse order lets the first win. */
const indexOfName = new Map(staticTable.map(([name], index) => [name, index + 1] as const).reverse());

/**
 * Says that our encoder's table is empty for good (§6.3). It opens the first block on a connection and spares us from
 * following the table size that the peer allows.
 */
export const emptyTableUpdate: Buffer = Buffer.from([0x20]);

/** The block of [name, value, …]; names are lower case, text is latin1. */
export function encodeHeaderBlock(fields: readonly string[]): Buffer {
  const parts: Buffer[] = [];
  for (let index = 0; index + 1 < fields.length; index += 2) {
    parts.push(encodeField(fields[index] ?? "", fields[index + 1] ?? ""));
  }
  return Buffer.concat(parts);
}

function encodeField(name: string, value: string): Buffer {
  const index = indexOfField.get(`${name}\0${value}`);
  if (index !== undefined) {
    return encodeInteger(0x80, 7, index);
  }
  // A literal that no table takes up (§6.2.2).
  const nameIndex = indexOfName.get(name);
  return nameIndex === undefined
    ? Buffer.concat([encodeInteger(0, 4, 0), encodeString(name), encodeString(value)])
    : Buffer.concat([encodeInteger(0, 4, nameIndex), encodeString(value)]);
}

function encodeString(text: string): Buffer {
  return Buffer.concat([encodeInteger(0, 7, text.length), Buffer.from(text, "latin1")]);
}

function encodeInteger(pattern: number, prefixBits: number, value: number): Buffer {
  const mask = (1 << prefixBits) - 1;
  if (value < mask) {
    return Buffer.from([pattern | value]);
  }
  const bytes = [pattern | mask];
  let rest = value - mask;
  while (rest >= 0x80) {
    bytes.push((rest & 0x7f) | 0x80);
    rest >>>= 7;
  }
  bytes.push(rest);
  return Buffer.from(bytes);
}
