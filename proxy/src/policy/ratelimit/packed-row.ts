/**
 * The row of a sliding window in few bytes: 8 bytes with a bit for each sub-window that has units, then their units, 7
 * bits in each byte, the lowest first (the varints of protobuf). Most windows have units in few sub-windows.
 */
import { countedSubWindows } from "@gatewayproxy/runtime/sliding-window";

const maskBytes = 8;

/** The units of the sub-windows that have some. */
export class SparseRow {
  /** Their number; the first of `places` and `units` belong to them. */
  length = 0;
  readonly places = new Uint8Array(countedSubWindows);
  readonly units = new Uint32Array(countedSubWindows);

  add(place: number, units: number): void {
    this.places[this.length] = place;
    this.units[this.length] = units;
    this.length++;
  }

  /** Adds the sub-windows of a row that have units. */
  addRow(row: Uint32Array): void {
    for (let place = 0; place < countedSubWindows; place++) {
      const units = row[place] ?? 0;
      if (units > 0) this.add(place, units);
    }
  }
}

/**
 * Packs a row into the bytes from `start` to `end`. Returns whether they suffice; otherwise their content is undefined.
 */
export function packRow({ length, places, units }: SparseRow, bytes: Uint8Array, start: number, end: number): boolean {
  bytes.fill(0, start, start + maskBytes);
  let next = start + maskBytes;
  for (let index = 0; index < length; index++) {
    const place = places[index] ?? 0;
    const maskByte = start + (place >> 3);
    bytes[maskByte] = (bytes[maskByte] ?? 0) | (1 << (place & 7));
    for (let rest = units[index] ?? 0; ; rest >>>= 7) {
      if (next === end) return false;
      if (rest < 0x80) {
        bytes[next++] = rest;
        break;
      }
      bytes[next++] = (rest & 0x7f) | 0x80;
    }
  }
  return true;
}

/** Writes the row that `packRow` has packed. Bytes that it has not written, and that change meanwhile, give any row. */
export function unpackRow(bytes: Uint8Array, start: number, row: Uint32Array): void {
  let next = start + maskBytes;
  for (let place = 0; place < countedSubWindows; place++) {
    let units = 0;
    if (((bytes[start + (place >> 3)] ?? 0) & (1 << (place & 7))) !== 0) {
      // A number of 32 bits has at most 5 bytes.
      for (let shift = 0; shift < 35; shift += 7) {
        const byte = bytes[next++] ?? 0;
        units |= (byte & 0x7f) << shift;
        if (byte < 0x80) break;
      }
    }
    row[place] = units >>> 0;
  }
}
