/**
 * Encodes header blocks (HPACK, RFC 7541) without a dynamic table. A block then depends only on its fields, so the
 * blocks of ordinary responses are encoded once for all connections. Text is not compressed: such responses have a few
 * dozen bytes.
 */
import type { FieldList } from "../../ports.ts";
import { staticTable } from "./static-table.ts";

/** Fields to send: a block that was encoded without the dynamic table, or names and values that alternate. */
export type HeaderSource = Uint8Array | FieldList;

/** The first entry of each name: in reverse order, the first one is set last. */
const indexOfName = new Map(staticTable.map(([name], index) => [name, index + 1] as const).reverse());
/** The entries of each name that have a value. */
const valuesOfName = Map.groupBy(
  staticTable.map(([name, value], index) => ({ name, value, index: index + 1 })).filter(({ value }) => value !== ""),
  ({ name }) => name,
);

/**
 * Sets the size of the encoder's dynamic table to 0 permanently (§6.3). It begins the first block on a connection, so
 * the encoder need not observe the table size that the peer allows.
 */
export const emptyTableUpdate: Buffer = Buffer.from([0x20]);

/** Encodes [name, value, …]. Names are in lower case, and text is latin1. */
export function encodeHeaderBlock(fields: FieldList): Buffer {
  const block = Buffer.allocUnsafeSlow(maxBlockBytes(fields));
  const end = writeHeaderBlock(block, 0, fields);
  return Buffer.copyBytesFrom(block, 0, end);
}

/** Maximum bytes of an integer: the prefix, and four times seven bits. */
const integerBytes = 5;

/** Returns an upper bound for the length of an encoded block. */
export function maxBlockBytes(fields: FieldList): number {
  let bytes = fields.length * integerBytes + fields.length;
  for (const text of fields) bytes += text.length;
  return bytes;
}

/**
 * As `encodeHeaderBlock`, into `target` from `start`, where `maxBlockBytes` are free.
 *
 * @returns the end of the block.
 */
export function writeHeaderBlock(target: Buffer, start: number, fields: FieldList): number {
  let at = start;
  for (let index = 0; index + 1 < fields.length; index += 2) {
    at = writeField(target, at, fields[index] ?? "", fields[index + 1] ?? "");
  }
  return at;
}

function writeField(target: Buffer, start: number, name: string, value: string): number {
  const nameIndex = indexOfName.get(name);
  if (nameIndex === undefined) {
    target[start] = 0;
    return writeString(target, writeString(target, start + 1, name), value);
  }
  const field = valuesOfName.get(name)?.find((entry) => entry.value === value);
  if (field !== undefined) return writeInteger(target, start, 0x80, 7, field.index);
  // A literal without indexing (§6.2.2).
  return writeString(target, writeInteger(target, start, 0, 4, nameIndex), value);
}

/** Longer strings are written by a native call, which takes as much time as a loop over some dozen characters. */
const shortLength = 24;

function writeString(target: Buffer, start: number, text: string): number {
  const { length } = text;
  const at = writeInteger(target, start, 0, 7, length);
  if (length > shortLength) return at + target.write(text, at, "latin1");
  for (let index = 0; index < length; index++) target[at + index] = text.charCodeAt(index);
  return at + length;
}

/** §5.1 */
function writeInteger(target: Buffer, start: number, pattern: number, prefixBits: number, value: number): number {
  const mask = (1 << prefixBits) - 1;
  let at = start;
  if (value < mask) {
    target[at++] = pattern | value;
    return at;
  }
  target[at++] = pattern | mask;
  let rest = value - mask;
  while (rest >= 0x80) {
    target[at++] = (rest & 0x7f) | 0x80;
    rest >>>= 7;
  }
  target[at++] = rest;
  return at;
}
