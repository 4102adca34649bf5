/**
 * A worker that adds and removes what `SentParts` says has the parts of the last snapshot, whatever groups the
 * snapshots share.
 */
import fc from "fast-check";
import { expect, test } from "vitest";
import { batchesOf, SentParts } from "./sent-parts.ts";
import type { PartGroup } from "./snapshot-parts.ts";

const keys = fc.constantFrom("a", "b", "c", "d", "e", "f");
const groups = fc.array(
  fc.uniqueArray(keys, { maxLength: 3 }).map((list): PartGroup => list.map((key) => [key, key])),
  { minLength: 6, maxLength: 6 },
);
/** Each snapshot has some of the groups, and a group of its own that equals one of them. */
const snapshots = fc.array(fc.tuple(fc.subarray([0, 1, 2, 3, 4, 5]), fc.nat({ max: 5 })), {
  minLength: 1,
  maxLength: 12,
});

test("parts are added once and removed with their last group", () => {
  fc.assert(
    fc.property(groups, snapshots, (known, series) => {
      const sent = new SentParts();
      const received = new Map<string, string>();
      for (const [shared, copied] of series) {
        const own = [...(known[copied] ?? [])];
        const next = [...shared.flatMap((at) => [known[at] ?? []]), own];
        const { added, removed } = sent.next(next);
        for (const [key, text] of [...batchesOf(added)].flat()) {
          expect(received.has(key)).toBe(false);
          received.set(key, text);
        }
        for (const key of removed) expect(received.delete(key)).toBe(true);
        expect(received).toEqual(new Map(next.flat()));
      }
    }),
  );
});
