/** Tables as kubectl prints them: upper-case heads, columns three spaces apart, nothing at the end of a line. */
import { withoutControls } from "./controls.ts";
import { clip, visibleLength, withoutMiddle } from "./style.ts";

export interface Column<Row> {
  readonly head: string;
  readonly cell: (row: Row) => string;
  /** Figures stand better at the right; default left. */
  readonly align?: "left" | "right";
  /** Shown with `-o wide` only. */
  readonly isWide?: boolean;
  /**
   * What becomes of it where a screen is too narrow for all. First the spare columns are left out, from the left; then lists
   * go below their row, the widest first; then the widest of the others become narrower: their cells lose their end or
   * their middle, or go on in the next line.
   */
  readonly whenNarrow?: "leftOut" | "below" | "cut" | "squeeze" | "wrap";
}

const gap = "   ";

/** A column with its cells, head first. */
interface Filled<Row> {
  readonly column: Column<Row>;
  readonly cells: readonly string[];
  readonly width: number;
}

export interface TableOptions<Row> {
  /** Whether columns for `-o wide` are shown. */
  readonly isWide?: boolean;
  /** Columns of the screen; without it the table is as wide as it is. */
  readonly width?: number;
  /** What is to be said of a row and is too long for a column; each is a line of its own below it. */
  readonly notes?: (row: Row) => readonly string[];
}

/** One line for the heads and one or more per row, each with its line end. */
export function renderTable<Row>(
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  { isWide = false, width = Number.POSITIVE_INFINITY, notes = () => [] }: TableOptions<Row> = {},
): string {
  const shown = columns.filter((column) => isWide || column.isWide !== true);
  const filled = shown.map((column): Filled<Row> => {
    const cells = [column.head, ...rows.map((row) => printable(column.cell(row)))];
    return { column, cells, width: cells.reduce((widest, cell) => Math.max(widest, visibleLength(cell)), 0) };
  });
  const inRow = withoutLists(width, withoutSpare(width, filled));
  const below = filled.filter((each) => each.column.whenNarrow === "below" && !inRow.includes(each));
  const fitting = narrowed(width, inRow);
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

function renderRow<Row>(columns: readonly Filled<Row>[], at: number): readonly string[] {
  const cells = columns.map(({ column, cells: all, width }) => {
    const text = all[at] ?? "";
    if (column.whenNarrow === "wrap") return wrapText(text, width);
    return [column.whenNarrow === "squeeze" ? withoutMiddle(text, width) : clip(text, width)];
  });
  const height = Math.max(1, ...cells.map(({ length }) => length));
  return Array.from({ length: height }, (_, line) =>
    columns.map(({ column, width }, place) => pad(cells[place]?.[line] ?? "", width, column.align)).join(gap),
  );
}

function pad(text: string, width: number, align: "left" | "right" = "left"): string {
  const fill = " ".repeat(Math.max(0, width - visibleLength(text)));
  return align === "right" ? fill + text : text + fill;
}

/** Lines of at most `width` columns, broken behind a space or a sign between names where there is one. */
export function wrapText(text: string, width: number, indent = ""): readonly string[] {
  const characters = Array.from(text);
  // On a screen of almost no columns nothing can be gained.
  if (characters.length <= width || width <= indent.length + 1) return [text];
  const sign = characters.slice(0, width).findLastIndex((character) => " ,;|/.:-".includes(character));
  // Not within the indentation, which would go on for ever.
  const end = sign <= indent.length ? width : sign + 1;
  const rest = characters.slice(end).join("").trimStart();
  return [characters.slice(0, end).join(""), ...(rest === "" ? [] : wrapText(indent + rest, width, indent))];
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

function withoutLists<Row>(width: number, columns: readonly Filled<Row>[]): readonly Filled<Row>[] {
  const lists = columns.filter(({ column }) => column.whenNarrow === "below");
  const [widest] = lists.toSorted((a, b) => b.width - a.width);
  if (widest === undefined || excess(width, columns) <= 0) return columns;
  return withoutLists(
    width,
    columns.filter((each) => each !== widest),
  );
}

const narrowing: ReadonlySet<string> = new Set(["cut", "squeeze", "wrap"]);

/** The widest first; no column becomes narrower than its head. */
function narrowed<Row>(width: number, columns: readonly Filled<Row>[]): readonly Filled<Row>[] {
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

/** A text on one line, as wide as it is shown. */
function printable(text: string): string {
  return withoutControls(text.replaceAll("\n", " "));
}
