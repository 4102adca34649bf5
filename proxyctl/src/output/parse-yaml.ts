/** Parses YAML. */
import { parseAllDocuments } from "yaml";

/**
 * Returns the values of all documents of a text, without empty ones. Throws an `Error` with line and column for text
 * that is no YAML.
 */
export function parseYamlDocuments(text: string): readonly unknown[] {
  const documents = parseAllDocuments(text);
  return [...documents].flatMap((document) => {
    const [error] = document.errors;
    if (error !== undefined) throw error;
    // Aliases are counted: a small text must not become a large value.
    const value: unknown = document.toJS({ maxAliasCount: 100 });
    return value === null ? [] : [value];
  });
}
