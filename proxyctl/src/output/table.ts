/** Tables as kubectl prints them: upper-case heads, columns three spaces apart, nothing at the end of a line. */
import { visibleLength } from "./style.ts";

export interface Column<Row> {
  readonly head: string;
  readonly cell: (row: Row) => string;
  /** Figures stand better at the right; default left. */
  readonly align?: "left" | "right";
  /** Shown with `-o wide` only. */
  readonly isWide?: boolean;
}

const gap = "   ";

/** One line for the heads and one per row, each with its line end. */
export function renderTable<Row>(columns: readonly Column<Row>[], rows: readonly Row[], isWide = false): string {
  const shown = columns.filter((column) => isWide || column.isWide !== true);
  const lines = [shown.map(({ head }) => head), ...rows.map((row) => shown.map(({ cell }) => printable(cell(row))))];
  const widths = shown.map((_, at) => Math.max(...lines.map((cells) => visibleLength(cells[at] ?? ""))));
  const pad = (text: string, at: number): string => {
    const fill = " ".repeat(Math.max(0, (widths[at] ?? 0) - visibleLength(text)));
    return shown[at]?.align === "right" ? fill + text : text + fill;
  };
  return lines.map((cells) => `${cells.map(pad).join(gap).trimEnd()}\n`).join("");
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
