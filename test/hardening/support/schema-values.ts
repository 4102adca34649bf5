/**
 * Values that the schema of a kind accepts, with every field that it has. They come from the parser's own schemas
 * (zod), so that a new field is fuzzed as soon as it is read. Rules over several fields are not considered: some of the
 * values violate them.
 */
import fc from "fast-check";
import type * as z from "zod";

/** A JSON value. */
export type Json = string | number | boolean | null | readonly Json[] | { readonly [name: string]: Json };

/** The values to choose from. */
export interface Vocabulary {
  /** The values of a field of this name; those that its schema rejects are left out. */
  readonly values: (field: string) => readonly Json[];
  /** Keys of a map in a field of this name. */
  readonly keys: (field: string) => readonly string[];
}

/** The parts of zod's definitions that this file reads. */
interface Definition {
  readonly type: string;
  readonly innerType?: z.ZodType;
  readonly in?: z.ZodType;
  readonly element?: z.ZodType;
  readonly shape?: Readonly<Record<string, z.ZodType>>;
  readonly options?: readonly z.ZodType[];
  readonly valueType?: z.ZodType;
  readonly entries?: Readonly<Record<string, Json>>;
  readonly values?: readonly Json[];
}

/** The usual maximum of items of a list; a longer one is made now and then, up to the schema's own bound. */
const usualItems = 3;
const maxItems = 130;

/** @param field the name of the field that holds the value */
export function valueOf(schema: z.ZodType, vocabulary: Vocabulary, field = ""): fc.Arbitrary<Json> {
  // Zod types the definition by the class of each schema.
  const definition = schema.def as unknown as Definition;
  const inner = (of: z.ZodType | undefined): fc.Arbitrary<Json> => {
    if (of === undefined) throw new Error(`the schema of "${field}" (${definition.type}) has nothing inside`);
    return valueOf(of, vocabulary, field);
  };
  switch (definition.type) {
    case "optional":
    case "default":
    case "nullable":
    case "catch":
    case "readonly":
      return inner(definition.innerType);
    case "pipe":
      // A schema that accepts any value is read by code.
      return definition.in?.def.type === "unknown" ? leafOf(schema, vocabulary, field) : inner(definition.in);
    case "object":
      return objectOf(definition.shape ?? {}, vocabulary);
    case "array":
      return listOf(inner(definition.element), schema);
    case "record":
      return fc.dictionary(fc.constantFrom(...vocabulary.keys(field)), inner(definition.valueType), { maxKeys: 3 });
    case "union":
      return fc.oneof(...(definition.options ?? []).map((option) => inner(option)));
    case "enum":
      return fc.constantFrom(...Object.values(definition.entries ?? {}));
    case "literal":
      return fc.constantFrom(...(definition.values ?? []));
    case "unknown":
    case "any":
      return fc.constant({});
    default:
      return leafOf(schema, vocabulary, field);
  }
}

function objectOf(shape: Readonly<Record<string, z.ZodType>>, vocabulary: Vocabulary): fc.Arbitrary<Json> {
  const entries = Object.entries(shape).filter(([name]) => name !== "status");
  const fields = Object.fromEntries(entries.map(([name, schema]) => [name, valueOf(schema, vocabulary, name)]));
  const requiredKeys = entries.filter(([, schema]) => !schema.safeParse(undefined).success).map(([name]) => name);
  const some = fc.record(fields, { requiredKeys });
  if (requiredKeys.length > 0) return some;
  // Many objects accept exactly one of their fields.
  const one = Object.entries(fields).map(([name, value]) => value.map((chosen): Json => ({ [name]: chosen })));
  if (one.length === 0) return some;
  return fc.oneof({ weight: 2, arbitrary: some }, { weight: 1, arbitrary: fc.oneof(...one) });
}

function listOf(item: fc.Arbitrary<Json>, schema: z.ZodType): fc.Arbitrary<Json> {
  const bounds = schema as unknown as { readonly _zod: { readonly bag: { minimum?: number; maximum?: number } } };
  const { minimum: minLength = 0, maximum: most = maxItems } = bounds._zod.bag;
  const maxLength = Math.min(most, maxItems);
  const usual = fc.array(item, { minLength, maxLength: Math.min(maxLength, Math.max(minLength, usualItems)) });
  const long = item.map((one) => Array.from({ length: maxLength }, () => one));
  return fc.oneof({ weight: 300, arbitrary: usual }, { weight: 1, arbitrary: long });
}

function leafOf(schema: z.ZodType, vocabulary: Vocabulary, field: string): fc.Arbitrary<Json> {
  const valid = vocabulary.values(field).filter((value) => schema.safeParse(value).success);
  if (valid.length === 0) throw new Error(`the vocabulary has nothing for "${field}"`);
  return fc.constantFrom(...valid);
}

/** Every field of a schema by its path, such as `spec.rules[].matches[].path.value`. */
export function fieldPaths(schema: z.ZodType, path = ""): readonly string[] {
  const definition = schema.def as unknown as Definition;
  const { innerType, in: input, element, shape, options, valueType } = definition;
  const through = innerType ?? input;
  if (through !== undefined) return fieldPaths(through, path);
  if (element !== undefined) return fieldPaths(element, `${path}[]`);
  if (valueType !== undefined) return fieldPaths(valueType, `${path}{}`);
  if (options !== undefined) return options.flatMap((option) => fieldPaths(option, path));
  if (shape === undefined || definition.type !== "object") return path === "" ? [] : [path];
  return Object.entries(shape).flatMap(([name, field]) =>
    name === "status" ? [] : fieldPaths(field, path === "" ? name : `${path}.${name}`),
  );
}
