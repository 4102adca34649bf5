import { countedSubWindows } from "@gatewayproxy/runtime/sliding-window";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { packRow, SparseRow, unpackRow } from "./packed-row.ts";

const units = fc.oneof(fc.constant(0), fc.nat(200), fc.nat(20_000), fc.nat(0xffff_ffff));
const rows = fc.array(units, { minLength: countedSubWindows, maxLength: countedSubWindows });

function sparse(row: readonly number[]): SparseRow {
  const result = new SparseRow();
  result.addRow(Uint32Array.from(row));
  return result;
}

test("a packed row is the same when it is unpacked, and nothing is written outside of its place", () => {
  fc.assert(
    fc.property(rows, fc.integer({ min: 8, max: 400 }), (row, size) => {
      const bytes = new Uint8Array(size + 2).fill(0xaa);
      const fits = packRow(sparse(row), bytes, 1, size + 1);
      expect([bytes[0], bytes[size + 1]]).toEqual([0xaa, 0xaa]);
      if (size >= 8 + 5 * countedSubWindows) expect(fits).toBe(true);
      if (!fits) return;
      const unpacked = new Uint32Array(countedSubWindows).fill(7);
      unpackRow(bytes, 1, unpacked);
      expect([...unpacked]).toEqual(row);
    }),
  );
});

test("64 bytes suffice for 11 sub-windows of any units, and for 56 with less than 128 each", () => {
  const row = (count: number, each: number) =>
    Array.from({ length: countedSubWindows }, (_, place) => (place < count ? each : 0));
  const fits = (count: number, each: number) => packRow(sparse(row(count, each)), new Uint8Array(64), 0, 64);
  expect([fits(11, 0xffff_ffff), fits(12, 0xffff_ffff)]).toEqual([true, false]);
  expect([fits(56, 127), fits(57, 127)]).toEqual([true, false]);
});

test("any bytes give a row", () => {
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 64, maxLength: 64 }), (bytes) => {
      const row = new Uint32Array(countedSubWindows);
      unpackRow(bytes, 0, row);
      expect(row).toHaveLength(countedSubWindows);
    }),
  );
});
