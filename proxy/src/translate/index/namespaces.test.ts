import { expect, test } from "vitest";
import type { Namespace } from "../../api/namespace.ts";
import type { LabelSelector } from "../../api/schema.ts";
import { allowsNamespace, namespaceLabels } from "./namespaces.ts";

function namespace(labels: Readonly<Record<string, string>>): Namespace {
  return { apiVersion: "v1", kind: "Namespace", metadata: { name: "shop", labels } };
}

test("a selector is evaluated once for each version of a Namespace", () => {
  let evaluations = 0;
  const selector: LabelSelector = {
    get matchLabels() {
      evaluations++;
      return { team: "web", "kubernetes.io/metadata.name": "shop" };
    },
  };
  const allows = (version: Namespace): boolean =>
    allowsNamespace({ from: "Selector", selector }, "infra", "shop", namespaceLabels([version]));
  const [first, second] = [namespace({ team: "web" }), namespace({ team: "other" })];
  expect([allows(first), allows(first), allows(second), allows(second)]).toEqual([true, true, false, false]);
  expect(evaluations).toBe(2);
});
