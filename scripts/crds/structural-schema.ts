/**
 * Converts the schemas of the parser (zod) for the API server and for editors: to OpenAPI v3 of
 * CustomResourceDefinitions ("structural schema"), and to JSON Schema. Both have one source, so the parser and the API
 * server reject the same manifests. CEL rules in the schemas express what neither dialect can (`api/schema.ts`).
 */
import * as z from "zod";

export interface JsonSchema {
  readonly [keyword: string]: unknown;
}

/** The schema of the input: the manifests of users, before defaults and transforms. */
function inputSchema(schema: z.ZodType): JsonSchema {
  return { ...z.toJSONSchema(schema, { io: "input", unrepresentable: "any", reused: "inline" }), $schema: undefined };
}

/**
 * Returns a schema for a CustomResourceDefinition. Such a schema cannot reject unknown fields. The API server rejects
 * them for `kubectl` (`fieldValidation=Strict`).
 */
export function structuralSchema(schema: z.ZodType): JsonSchema {
  return convert(inputSchema(schema), "crd");
}

/** Returns a schema for editors, which rejects unknown fields and omits CEL rules. */
export function editorSchema(schema: z.ZodType): JsonSchema {
  return convert(inputSchema(schema), "editor");
}

type Dialect = "crd" | "editor";

/** Keywords in the order of the output. The conversion fails for any other keyword. */
const keywords = [
  "description",
  "type",
  "default",
  "enum",
  "const",
  "pattern",
  "minLength",
  "maxLength",
  "minimum",
  "maximum",
  "minItems",
  "maxItems",
  "items",
  "required",
  "minProperties",
  "maxProperties",
  "properties",
  "additionalProperties",
  "x-kubernetes-int-or-string",
  "x-kubernetes-validations",
];

function convert(schema: JsonSchema, dialect: Dialect): JsonSchema {
  const strange = Object.keys(schema).filter((key) => schema[key] !== undefined && !isKnown(key));
  if (strange.length > 0) throw new Error(`no conversion for the schema keywords ${strange.join(", ")}`);
  const hasType = schema["type"] !== undefined || schema["x-kubernetes-int-or-string"] === true;
  if (!hasType) throw new Error(`a field has no type: ${JSON.stringify(schema)}`);
  const entries = keywords.flatMap((key) => {
    const value = schema[key];
    return value === undefined ? [] : convertKeyword(key, value, dialect);
  });
  const isList = schema["type"] === "array";
  // Absent would mean the same; said, because tools ask for it.
  const listType = isList && dialect === "crd" ? [["x-kubernetes-list-type", "atomic"] as const] : [];
  return Object.fromEntries([...entries, ...listType]);
}

/** The names of a map are text in both dialects, which `propertyNames` says again. */
function isKnown(keyword: string): boolean {
  return keyword === "propertyNames" || keywords.includes(keyword);
}

function convertKeyword(key: string, value: unknown, dialect: Dialect): readonly (readonly [string, unknown])[] {
  switch (key) {
    case "const":
      return [["enum", [value]]];
    case "items":
      return [[key, convert(asSchema(value), dialect)]];
    case "properties":
      return [
        [
          key,
          Object.fromEntries(
            Object.entries(asSchema(value)).map(([name, of]) => [name, convert(asSchema(of), dialect)]),
          ),
        ],
      ];
    case "additionalProperties":
      if (typeof value === "object" && Object.keys(asSchema(value)).length > 0) {
        return [[key, convert(asSchema(value), dialect)]];
      }
      // `strictObject` of the parser: nothing else is accepted.
      return dialect === "editor" ? [[key, false]] : [];
    case "x-kubernetes-int-or-string":
      return dialect === "editor"
        ? [["type", ["integer", "string"]]]
        : [
            ["anyOf", [{ type: "integer" }, { type: "string" }]],
            [key, value],
          ];
    case "x-kubernetes-validations":
      return dialect === "editor" ? [] : [[key, value]];
    default:
      return [[key, value]];
  }
}

function asSchema(value: unknown): JsonSchema {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new Error("expected a schema");
  // Checked: a plain object; zod gives no other.
  return value as JsonSchema;
}
