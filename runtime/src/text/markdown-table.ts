/** Renders Markdown tables with aligned columns, as the formatter requires of generated pages. */

/** Renders a table that ends with a newline. The first row has the headings; all rows have the same number of cells. */
export function renderMarkdownTable(rows: readonly (readonly string[])[]): string {
  const escaped = rows.map((row) => row.map((cell) => cell.replaceAll("|", "\\|")));
  const [headings = [], ...body] = escaped;
  const widths = headings.map((_, column) => Math.max(3, ...escaped.map((row) => row[column]?.length ?? 0)));
  const rule = widths.map((width) => "-".repeat(width));
  return [headings, rule, ...body]
    .map((row) => `| ${row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(" | ")} |\n`)
    .join("");
}
