/** Filters RequestHeaderModifier and ResponseHeaderModifier. */
import type { HeaderModifier } from "../../api/http-route-filter.ts";
import type { HeaderEdits, HeaderField } from "../../ir/filter.ts";

export function translateHeaderModifier({ set, add, remove }: HeaderModifier): HeaderEdits {
  return {
    set: distinct(set),
    add: distinct(add),
    remove: [...new Set(remove.map((name) => name.toLowerCase()))],
  };
}

/** Of several entries with one name the first counts, says the API. */
function distinct(fields: HeaderModifier["set"]): readonly HeaderField[] {
  const byName = new Map<string, HeaderField>();
  for (const { name, value } of fields) {
    const key = name.toLowerCase();
    if (!byName.has(key)) byName.set(key, { name: key, value });
  }
  return [...byName.values()];
}
