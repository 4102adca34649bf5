import fc from "fast-check";
import { expect, test } from "vitest";
import type { ParentRef } from "../../api/http-route.ts";
import { AcceptedParents } from "./accepted-parents.ts";

const refs = Array.from(
  { length: 12 },
  (_, at): ParentRef => ({
    group: "gateway.networking.k8s.io",
    kind: "Gateway",
    name: `g${at}`,
  }),
);
const some = fc.subarray(refs);

test("each version has what a set would have, and is the same for a page exactly if nothing of it was changed", () => {
  fc.assert(
    fc.property(
      some,
      fc.array(fc.record({ removed: some, added: some }), { maxLength: 80 }),
      some,
      (first, edits, page) => {
        const expected = new Set(first);
        let version = AcceptedParents.of(first);
        const versions = [{ version, all: new Set(expected) }];
        for (const { removed, added } of edits) {
          const before = version;
          version = version.after(removed, added);
          for (const ref of removed) expected.delete(ref);
          for (const ref of added) expected.add(ref);
          versions.push({ version, all: new Set(expected) });
          const isChanged = [...removed, ...added].some((ref) => page.includes(ref));
          if (isChanged) expect(version.isSameFor(page, before)).toBe(false);
          expect(version.isSameFor(page, version)).toBe(true);
        }
        for (const { version: each, all } of versions) {
          for (const ref of refs) expect(each.has(ref)).toBe(all.has(ref));
          for (const { version: other, all: others } of versions) {
            if (!each.isSameFor(page, other)) continue;
            for (const ref of page) expect(all.has(ref)).toBe(others.has(ref));
          }
        }
      },
    ),
  );
});

test("a page is the same in a version in which another one has changed", () => {
  const [a, b, c] = refs as [ParentRef, ParentRef, ParentRef];
  const version = AcceptedParents.of([a]);
  const next = version.after([], [b]).after([b], [c]);
  expect(next.isSameFor([a], version)).toBe(true);
  expect(next.isSameFor([a, c], version)).toBe(false);
  expect(version.isSameFor([a], next)).toBe(false);
});
