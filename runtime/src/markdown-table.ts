/** A Markdown table with its columns in line, as the formatter wants them, so that generated pages pass it. */

/** `rows` begins with the headings; every row has as many cells. Ends with a newline. */
export function renderMarkdownTable(rows: readonly (readonly string[])[]): string {
  const escaped = rows.map((row) => row.map((cell) => cell.replaceAll("|", "\\|")));
  const [headings = [], ...body] = escaped;
  const widths = headings.map((_, column) => Math.max(3, ...escaped.map((row) => row[column]?.length ?? 0)));
  const rule = widths.map((width) => "-".repeat(width));
  return [headings, rule, ...body]
    .map((row) => `| ${row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(" | ")} |\n`)
    .join("");
}
