import { describe, expect, test } from "vitest";
import { customResourceDefinition, customResources } from "../../scripts/crds/custom-resources.ts";

/** The parts of JSON Schema that this test reads. */
interface Schema {
  readonly description?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
}

interface Definition {
  readonly spec: { readonly versions: readonly [{ readonly schema: { readonly openAPIV3Schema: Schema } }] };
}

/** Paths of fields for which `kubectl explain` would have no description. */
function undescribed({ properties = {}, items }: Schema, path: string): readonly string[] {
  const own = Object.entries(properties).flatMap(([name, field]) => {
    const fieldPath = `${path}.${name}`;
    return [...(field.description === undefined ? [fieldPath] : []), ...undescribed(field, fieldPath)];
  });
  return items === undefined ? own : [...own, ...undescribed(items, `${path}[]`)];
}

describe.each(customResources)("the definition of $kind", (resource) => {
  // The generator built it from plain objects.
  const { spec } = customResourceDefinition(resource) as Definition;
  const { properties = {} } = spec.versions[0].schema.openAPIV3Schema;

  test("describes every field", () => {
    const { spec: specSchema, status } = properties;
    expect([...undescribed(specSchema ?? {}, "spec"), ...undescribed(status ?? {}, "status")]).toEqual([]);
  });
});
