/** Filters RequestHeaderModifier and ResponseHeaderModifier. */
import type { HeaderModifier } from "../../../api/http-route-filter.ts";
import type { HeaderEdits, HeaderField } from "../../../ir/filter.ts";

/** Translates the filter (Gateway API `HTTPHeaderFilter`). Names are in lower case. */
export function translateHeaderModifier({ set, add, remove }: HeaderModifier): HeaderEdits {
  return { set: set.map(field), add: add.map(field), remove: remove.map((name) => name.toLowerCase()) };
}

function field({ name, value }: HeaderField): HeaderField {
  return { name: name.toLowerCase(), value };
}

/** Lower-case names with several actions, which make a filter invalid (Gateway API `HTTPHeaderFilter`). */
export function repeatedHeaders({ set, add, remove }: HeaderModifier): readonly string[] {
  const names = [...set.map(({ name }) => name), ...add.map(({ name }) => name), ...remove].map((name) =>
    name.toLowerCase(),
  );
  return [...new Set(names.filter((name, place) => names.indexOf(name) !== place))];
}
