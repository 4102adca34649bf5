import { expect, test } from "vitest";
import { ownedObject } from "./owned-object.ts";
import { withoutNewRights } from "./roles.ts";

/** A Role with a rule for these Secrets, if there are any. */
function roleFor(...resourceNames: readonly string[]) {
  const rules = [{ apiGroups: [""], resources: ["secrets"], resourceNames, verbs: ["list", "watch"] }];
  const fields = { rules: resourceNames.length === 0 ? [] : rules };
  return ownedObject({ kind: "Role", namespace: "bob", name: "web", metadata: { namespace: "bob" }, fields });
}

test.each([
  ["has some of the current rights", ["a", "b"], ["b", "c"], ["b"]],
  ["has none of the current rights", ["a"], ["c"], []],
  ["has all of the current rights", ["a"], ["a", "c"], undefined],
  ["had no rights", [], ["c"], undefined],
])("a Role without new rights %s", (_, current, desired, expected) => {
  const role = withoutNewRights(roleFor(...desired), roleFor(...current).body);
  expect(role?.body["rules"]).toEqual(expected && roleFor(...expected).body["rules"]);
});
