/** Tables as kubectl prints them: upper-case heads, columns three spaces apart, nothing at the end of a line. */
import { clip, visibleLength } from "./style.ts";

export interface Column<Row> {
  readonly head: string;
  readonly cell: (row: Row) => string;
  /** Figures stand better at the right; default left. */
  readonly align?: "left" | "right";
  /** Shown with `-o wide` only. */
  readonly isWide?: boolean;
  /** What becomes of it where a screen is too narrow for all: the spare columns go, from the left, then names are cut. */
  readonly whenNarrow?: "leftOut" | "cut";
}

const gap = "   ";

/** A column with its cells, head first. */
interface Filled<Row> {
  readonly column: Column<Row>;
  readonly cells: readonly string[];
  readonly width: number;
}

/** One line for the heads and one per row, each with its line end; as wide as it is, unless a screen's `width` is given. */
export function renderTable<Row>(
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  { isWide = false, width = Number.POSITIVE_INFINITY }: { readonly isWide?: boolean; readonly width?: number } = {},
): string {
  const shown = columns.filter((column) => isWide || column.isWide !== true);
  const filled = shown.map((column): Filled<Row> => {
    const cells = [column.head, ...rows.map((row) => printable(column.cell(row)))];
    return { column, cells, width: cells.reduce((widest, cell) => Math.max(widest, visibleLength(cell)), 0) };
  });
  const fitting = cutTo(width, withoutSpare(width, filled));
  const lines = Array.from({ length: rows.length + 1 }, (_, at) => fitting.map((each) => renderCell(each, at)));
  return lines.map((cells) => `${cells.join(gap).trimEnd()}\n`).join("");
}

function renderCell<Row>({ column, cells, width }: Filled<Row>, at: number): string {
  const text = clip(cells[at] ?? "", width);
  const fill = " ".repeat(Math.max(0, width - visibleLength(text)));
  return column.align === "right" ? fill + text : text + fill;
}

/** By how much the columns are wider than the screen; 0 or less where they fit. */
function excess<Row>(width: number, columns: readonly Filled<Row>[]): number {
  return columns.reduce((all, each) => all + each.width, gap.length * (columns.length - 1)) - width;
}

function withoutSpare<Row>(width: number, columns: readonly Filled<Row>[]): readonly Filled<Row>[] {
  const spare = columns.findIndex(({ column }) => column.whenNarrow === "leftOut");
  if (spare === -1 || excess(width, columns) <= 0) return columns;
  return withoutSpare(width, columns.toSpliced(spare, 1));
}

/** Cuts the widest first; no column becomes narrower than its head. */
function cutTo<Row>(width: number, columns: readonly Filled<Row>[]): readonly Filled<Row>[] {
  const cut = [...columns];
  for (let over = excess(width, cut); over > 0; over--) {
    const candidates = cut.filter((each) => each.column.whenNarrow === "cut" && each.width > each.column.head.length);
    const [widest] = candidates.toSorted((a, b) => b.width - a.width);
    if (widest === undefined) break;
    cut[cut.indexOf(widest)] = { ...widest, width: widest.width - 1 };
  }
  return cut;
}

/** Texts of clients and resources must not steer the terminal; styles of ours may. */
function printable(text: string): string {
  return text.replaceAll("\n", " ");
}

/**
 * What a terminal would take for a command, made visible. For every text that comes from outside: keys of clients,
 * paths, header values.
 */
export function withoutControls(text: string): string {
  return text.replaceAll(/[\u0000-\u001f\u007f-\u009f]/g, (character) => {
    return `\\x${character.charCodeAt(0).toString(16).padStart(2, "0")}`;
  });
}
