import fc from "fast-check";
import { expect, test } from "vitest";
import { type NumberedStream, StreamTable } from "./stream-table.ts";

test("behaves as a Map for any additions and deletions", () => {
  // Identifiers that share slots in a table of 64, and their neighbours.
  const id = fc.oneof(
    fc.nat(100),
    fc.nat(40).map((times) => times * 64),
    fc.integer({ min: 0, max: 2 ** 29 }),
  );
  const step = fc.record({ deletes: fc.boolean(), id: id.map((number) => number * 2 + 1) });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 300 }), (steps) => {
      const table = new StreamTable<NumberedStream>();
      const model = new Map<number, NumberedStream>();
      for (const { deletes, id } of steps) {
        if (deletes) {
          table.delete(id);
          model.delete(id);
        } else if (!model.has(id)) {
          const stream = { id };
          table.add(stream);
          model.set(id, stream);
        }
        expect(table.size).toBe(model.size);
      }
      for (const { id } of steps) expect(table.get(id)).toBe(model.get(id));
      expect(new Set(table.all())).toEqual(new Set(model.values()));
    }),
    { numRuns: 500 },
  );
});
