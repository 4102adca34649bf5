/**
 * Encodes header blocks (HPACK, RFC 7541) without a dynamic table. A block then depends only on its fields, so the blocks
 * of ordinary responses are encoded once for all connections. Text is not compressed: such responses have a few dozen bytes.
 */
import type { FieldList } from "../../ports.ts";
import { staticTable } from "./static-table.ts";

/** Fields to send: a block that was encoded without the dynamic table, or names and values in turns. */
export type HeaderSource = Uint8Array | FieldList;

const indexOfField = new Map(staticTable.map(([name, value], index) => [`${name}\0${value}`, index + 1]));
/** The first entry of each name; the reverse order lets the first win. */
const indexOfName = new Map(staticTable.map(([name], index) => [name, index + 1] as const).reverse());

/**
 * Sets the size of the encoder's dynamic table to 0 for good (§6.3). It begins the first block on a connection, so the
 * encoder need not observe the table size that the peer allows.
 */
export const emptyTableUpdate: Buffer = Buffer.from([0x20]);

/** Encodes [name, value, …]. Names are in lower case, and text is latin1. */
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
  // A literal without indexing (§6.2.2).
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
