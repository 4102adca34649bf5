import fc from "fast-check";
import { expect, test } from "vitest";
import { type Column, renderTable } from "./table.ts";
import { visibleLength } from "./style.ts";

type Row = readonly [name: string, list: string, note: string];

const columns: readonly Column<Row>[] = [
  { head: "NAME", whenNarrow: "squeeze", cell: ([name]) => name },
  { head: "LIST", whenNarrow: "wrap", cell: ([, list]) => list },
];
const notes = ([, , note]: Row): readonly string[] => (note === "" ? [] : [note]);

test("goes on in the next line where a list is longer than the screen, with notes below it", () => {
  const rows: readonly Row[] = [
    ["chat", "default/chat-limits#0,default/chat-limits#1", "500: Service default/gone does not exist"],
  ];
  expect(renderTable(columns, rows, { width: 32, notes })).toBe(
    [
      "NAME   LIST",
      "chat   default/chat-limits#0,",
      "       default/chat-limits#1",
      "  ! 500: Service default/gone",
      "      does not exist",
      "",
    ].join("\n"),
  );
});

test("is never wider than the screen, and leaves out nothing of what it wraps", () => {
  const text = fc.string({ unit: fc.constantFrom("a", "b", "-", "/", ",", " ", "🙂"), minLength: 1, maxLength: 60 });
  fc.assert(
    fc.property(
      fc.array(fc.tuple(text, text, text), { maxLength: 4 }),
      fc.integer({ min: 12, max: 60 }),
      (rows, width) => {
        const lines = renderTable(columns, rows, { width, notes }).split("\n");
        expect(Math.max(...lines.map(visibleLength))).toBeLessThanOrEqual(width);
        const letters = (all: string) => all.replaceAll(/[^ab]/g, "");
        for (const [, list] of rows) {
          const alone = renderTable([columns[1] as Column<Row>], [["", list, ""]], { width });
          expect(letters(alone)).toBe(letters(list));
        }
      },
    ),
  );
});

test.each([0, 1, 2, 6, 7, 8])("is shown on a screen of %i columns too", (width) => {
  const rows: readonly Row[] = [["a-name-that-is-long", "a list, of things", "a note that is longer"]];
  expect(renderTable(columns, rows, { width, notes })).toContain("NAME");
});
