/** The `-o` formats for data: JSON and YAML of one value. */
import { Document, type Scalar, stringify, visit } from "yaml";
import { withJsonEscapes } from "./controls.ts";

/** Values of `-o`, as in kubectl; `wide` is a table with more columns. */
export const outputFormats = ["table", "wide", "json", "yaml"] as const;
/** A value of `-o`. */
export type OutputFormat = (typeof outputFormats)[number];

/** Renders the value as a document that ends with a newline. Undefined fields are left out. */
export function renderData(format: "json" | "yaml", value: unknown): string {
  if (format === "json") return withJsonEscapes(`${JSON.stringify(value, undefined, 2)}\n`);
  return renderYaml(value);
}

/** Renders YAML documents, one after the other. */
export function renderDocuments(values: readonly unknown[]): string {
  return values.map(renderYaml).join("---\n");
}

/**
 * Renders YAML without control characters: strings that contain some are double-quoted, with JSON's escapes (YAML 1.2
 * §5.7).
 */
export function renderYaml(value: unknown): string {
  const options = { aliasDuplicateObjects: false };
  const text = stringify(value, { ...options, lineWidth: 0 });
  if (withJsonEscapes(text) === text) return text;
  const document = new Document(value, options);
  visit(document, {
    Scalar: (_, scalar: Scalar) => {
      if (typeof scalar.value === "string" && withJsonEscapes(scalar.value) !== scalar.value) {
        scalar.type = "QUOTE_DOUBLE";
      }
    },
  });
  return withJsonEscapes(document.toString({ lineWidth: 0 }));
}
