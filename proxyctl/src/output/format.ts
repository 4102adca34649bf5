/** The `-o` formats that are made from data rather than laid out: JSON and YAML of one value. */
import { Document, type Scalar, stringify, visit } from "yaml";
import { withJsonEscapes } from "./controls.ts";

/** As kubectl's `-o`; `wide` is a table with more columns. */
export const outputFormats = ["table", "wide", "json", "yaml"] as const;
export type OutputFormat = (typeof outputFormats)[number];

/** The value as a document that ends with a newline. Fields that are undefined are left out. */
export function renderData(format: "json" | "yaml", value: unknown): string {
  if (format === "json") return withJsonEscapes(`${JSON.stringify(value, undefined, 2)}\n`);
  return renderYaml(value);
}

/** YAML without controls of a terminal: texts that hold some are double-quoted, where the escapes of JSON are YAML (§5.7). */
export function renderYaml(value: unknown): string {
  const options = { aliasDuplicateObjects: false };
  const text = stringify(value, { ...options, lineWidth: 0 });
  if (withJsonEscapes(text) === text) return text;
  const document = new Document(value, options);
  visit(document, {
    Scalar: (_, scalar: Scalar) => {
      if (typeof scalar.value === "string" && withJsonEscapes(scalar.value) !== scalar.value)
        scalar.type = "QUOTE_DOUBLE";
    },
  });
  return withJsonEscapes(document.toString({ lineWidth: 0 }));
}
