import { describe, expect, test } from "vitest";
import { customResourceDefinition, customResources } from "../../scripts/crds/custom-resources.ts";

/** As JSON Schema has them, as far as this looks at them. */
interface Schema {
  readonly description?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
}

interface Definition {
  readonly spec: { readonly versions: readonly [{ readonly schema: { readonly openAPIV3Schema: Schema } }] };
}

/** Paths of fields that `kubectl explain` would have nothing to say about. */
function undescribed({ properties = {}, items }: Schema, path: string): readonly string[] {
  const own = Object.entries(properties).flatMap(([name, field]) => {
    const place = `${path}.${name}`;
    return [...(field.description === undefined ? [place] : []), ...undescribed(field, place)];
  });
  return items === undefined ? own : [...own, ...undescribed(items, `${path}[]`)];
}

describe.each(customResources)("the definition of $kind", (resource) => {
  // The generator made it of plain objects.
  const { spec } = customResourceDefinition(resource) as Definition;
  const { properties = {} } = spec.versions[0].schema.openAPIV3Schema;

  test("describes every field", () => {
    const { spec: wanted, status } = properties;
    expect([...undescribed(wanted ?? {}, "spec"), ...undescribed(status ?? {}, "status")]).toEqual([]);
  });
});
