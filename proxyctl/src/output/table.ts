/** Tables as kubectl prints them: upper-case heads, columns three spaces apart, no blanks at the end of a line. */
import { withoutControls } from "./controls.ts";
import { clip, visibleLength, withoutMiddle } from "./style.ts";

/** A column of a table. */
export interface Column<Row> {
  readonly head: string;
  readonly cell: (row: Row) => string;
  /** Use right for figures. Default: left. */
  readonly align?: "left" | "right";
  /** Shown with `-o wide` only. */
  readonly isWide?: boolean;
  /**
   * The behavior of the column on a screen that is too narrow. First, columns with `leftOut` are left out, from the
   * left. Then columns with `below` move below their row, the widest first. Then the widest of the others become
   * narrower: their cells lose their end (`cut`) or their middle (`squeeze`), or continue in the next line (`wrap`).
   */
  readonly whenNarrow?: "leftOut" | "below" | "cut" | "squeeze" | "wrap";
}

const gap = "   ";

/** A column with its cells, head first. */
interface MeasuredColumn<Row> {
  readonly column: Column<Row>;
  readonly cells: readonly string[];
  readonly width: number;
}

/** Options of `renderTable`. */
export interface TableOptions<Row> {
  /** Whether columns for `-o wide` are shown. */
  readonly isWide?: boolean;
  /** The width of the screen in columns; absent: unbounded. */
  readonly width?: number;
  /** Notes about a row that are too long for a column; each is a line below the row. */
  readonly notes?: (row: Row) => readonly string[];
}

/** Renders a line of heads and one or more lines per row, each with its newline. */
export function renderTable<Row>(
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  { isWide = false, width = Number.POSITIVE_INFINITY, notes = () => [] }: TableOptions<Row> = {},
): string {
  const shown = columns.filter((column) => isWide || column.isWide !== true);
  const measured = shown.map((column): MeasuredColumn<Row> => {
    const cells = [column.head, ...rows.map((row) => printable(column.cell(row)))];
    return { column, cells, width: cells.reduce((widest, cell) => Math.max(widest, visibleLength(cell)), 0) };
  });
  const inRow = withoutBelow(width, withoutLeftOut(width, measured));
  const below = measured.filter((item) => item.column.whenNarrow === "below" && !inRow.includes(item));
  const fitting = narrow(width, inRow);
  return [undefined, ...rows]
    .flatMap((row, at) => {
      if (row === undefined) return renderRow(fitting, at);
      const lists = below.map(({ column, cells }) => `    ${column.head.toLowerCase()}: ${cells[at] ?? ""}`);
      const lines = [...lists, ...notes(row).map((note) => `  ! ${printable(note)}`)];
      return [...renderRow(fitting, at), ...lines.flatMap((line) => wrapText(line, width, "      "))];
    })
    .map((line) => `${line.trimEnd()}\n`)
    .join("");
}

function renderRow<Row>(columns: readonly MeasuredColumn<Row>[], at: number): readonly string[] {
  const cells = columns.map(({ column, cells: all, width }) => {
    const text = all[at] ?? "";
    if (column.whenNarrow === "wrap") return wrapText(text, width);
    return [column.whenNarrow === "squeeze" ? withoutMiddle(text, width) : clip(text, width)];
  });
  const height = Math.max(1, ...cells.map(({ length }) => length));
  return Array.from({ length: height }, (_, line) =>
    columns.map(({ column, width }, index) => pad(cells[index]?.[line] ?? "", width, column.align)).join(gap),
  );
}

function pad(text: string, width: number, align: "left" | "right" = "left"): string {
  const fill = " ".repeat(Math.max(0, width - visibleLength(text)));
  return align === "right" ? fill + text : text + fill;
}

/** Splits a text into lines of at most `width` columns, after a blank or punctuation if possible. */
export function wrapText(text: string, width: number, indent = ""): readonly string[] {
  const characters = Array.from(text);
  // With almost no columns, wrapping would not help.
  if (characters.length <= width || width <= indent.length + 1) return [text];
  const sign = characters.slice(0, width).findLastIndex((character) => " ,;|/.:-".includes(character));
  // Not within the indentation, which would loop forever.
  const end = sign <= indent.length ? width : sign + 1;
  const rest = characters.slice(end).join("").trimStart();
  return [characters.slice(0, end).join(""), ...(rest === "" ? [] : wrapText(indent + rest, width, indent))];
}

/** Returns the width of the columns minus the width of the screen; 0 or less if they fit. */
function excess<Row>(width: number, columns: readonly MeasuredColumn<Row>[]): number {
  return columns.reduce((sum, { width: own }) => sum + own, gap.length * (columns.length - 1)) - width;
}

function withoutLeftOut<Row>(width: number, columns: readonly MeasuredColumn<Row>[]): readonly MeasuredColumn<Row>[] {
  const index = columns.findIndex(({ column }) => column.whenNarrow === "leftOut");
  if (index === -1 || excess(width, columns) <= 0) return columns;
  return withoutLeftOut(width, columns.toSpliced(index, 1));
}

function withoutBelow<Row>(width: number, columns: readonly MeasuredColumn<Row>[]): readonly MeasuredColumn<Row>[] {
  const lists = columns.filter(({ column }) => column.whenNarrow === "below");
  const [widest] = lists.toSorted((a, b) => b.width - a.width);
  if (widest === undefined || excess(width, columns) <= 0) return columns;
  return withoutBelow(
    width,
    columns.filter((item) => item !== widest),
  );
}

const narrowing: ReadonlySet<string> = new Set(["cut", "squeeze", "wrap"]);

/** Narrows the widest columns first, but none below the width of its head. */
function narrow<Row>(width: number, columns: readonly MeasuredColumn<Row>[]): readonly MeasuredColumn<Row>[] {
  const fitting = [...columns];
  for (let over = excess(width, fitting); over > 0; over--) {
    const candidates = fitting.filter(
      ({ column, width: own }) =>
        column.whenNarrow !== undefined && narrowing.has(column.whenNarrow) && own > column.head.length,
    );
    const [widest] = candidates.toSorted((a, b) => b.width - a.width);
    if (widest === undefined) break;
    fitting[fitting.indexOf(widest)] = { ...widest, width: widest.width - 1 };
  }
  return fitting;
}

/** Renders a text in one line, without control characters. */
function printable(text: string): string {
  return withoutControls(text.replaceAll("\n", " "));
}
