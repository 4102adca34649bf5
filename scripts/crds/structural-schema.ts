/**
 * From the parser's schemas (zod) to what the API server and editors take: OpenAPI v3 as CustomResourceDefinitions have
 * it ("structural schema"), and JSON Schema. Both come from one source, so that a manifest is refused by the parser
 * and by the API server alike. What neither dialect can say stands in the schemas as CEL rules (`api/schema.ts`).
 */
import * as z from "zod";

export interface JsonSchema {
  readonly [keyword: string]: unknown;
}

/** The form of the input, before defaults and transforms: what users write. */
function inputSchema(schema: z.ZodType): JsonSchema {
  return { ...z.toJSONSchema(schema, { io: "input", unrepresentable: "any", reused: "inline" }), $schema: undefined };
}

/**
 * A schema as CustomResourceDefinitions have it. Unknown fields are not refused by it, since no such schema can: the
 * API server does that for `kubectl` by itself (`fieldValidation=Strict`).
 */
export function structuralSchema(schema: z.ZodType): JsonSchema {
  return convert(inputSchema(schema), "crd");
}

/** A schema for editors: unknown fields are refused here, CEL rules are left out. */
export function editorSchema(schema: z.ZodType): JsonSchema {
  return convert(inputSchema(schema), "editor");
}

type Dialect = "crd" | "editor";

/** Keywords in the order in which people read them; one that is not here is a hole in the conversion. */
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
  "properties",
  "additionalProperties",
  "x-kubernetes-validations",
];

function convert(schema: JsonSchema, dialect: Dialect): JsonSchema {
  const strange = Object.keys(schema).filter((key) => schema[key] !== undefined && !keywords.includes(key));
  if (strange.length > 0) throw new Error(`no conversion for the schema keywords ${strange.join(", ")}`);
  if (schema["type"] === undefined) throw new Error(`a field has no type: ${JSON.stringify(schema)}`);
  const entries = keywords.flatMap((key) => {
    const value = schema[key];
    return value === undefined ? [] : convertKeyword(key, value, dialect);
  });
  const isList = schema["type"] === "array";
  // Absent would mean the same; said, because tools ask for it.
  const listType = isList && dialect === "crd" ? [["x-kubernetes-list-type", "atomic"] as const] : [];
  return Object.fromEntries([...entries, ...listType]);
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
      // `strictObject` of the parser: nothing else is accepted.
      return dialect === "editor" ? [[key, false]] : [];
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
