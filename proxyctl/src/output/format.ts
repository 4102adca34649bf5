/** The `-o` formats that are made from data rather than laid out: JSON and YAML of one value. */
import { stringify } from "yaml";

/** As kubectl's `-o`; `wide` is a table with more columns. */
export const outputFormats = ["table", "wide", "json", "yaml"] as const;
export type OutputFormat = (typeof outputFormats)[number];

/** The value as a document that ends with a newline. Fields that are undefined are left out. */
export function renderData(format: "json" | "yaml", value: unknown): string {
  if (format === "json") return `${JSON.stringify(value, undefined, 2)}\n`;
  return stringify(value, { lineWidth: 0, aliasDuplicateObjects: false });
}
