/**
 * Golden tests: `testdata/NAME.in.yaml` has manifests, and `NAME.out.yaml` the result of their translation: snapshot,
 * statuses and problems. `UPDATE_GOLDEN=1` writes the results. Review them like code.
 */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { renderProblem } from "@gatewayproxy/runtime/problem";
import { runToEnd } from "@gatewayproxy/runtime/steps";
import { describe, expect, test } from "vitest";
import { Document, isPair, isScalar, visit } from "yaml";
import { parseManifests } from "../api/parse-manifests.ts";
import { locateProblems } from "../api/resource-problem.ts";
import { assertSnapshot } from "../ir/assert-snapshot.ts";
import { translate } from "./translate.ts";
import { backendsByKey } from "../ir/backends-by-key.ts";

const folder = join(import.meta.dirname, "testdata");
const isUpdating = process.env["UPDATE_GOLDEN"] === "1";

describe("translation of every scenario equals its golden file", () => {
  const scenarios = readdirSync(folder).filter((file) => file.endsWith(".in.yaml"));

  test("goldens are never rewritten in CI", () => {
    expect(isUpdating && process.env["CI"] === "true").toBe(false);
  });

  test.each(scenarios)("%s", (scenario) => {
    const outcome = outcomeOf(scenario, readFileSync(join(folder, scenario), "utf8"));
    const golden = join(folder, scenario.replace(/\.in\.yaml$/, ".out.yaml"));
    if (isUpdating && process.env["CI"] !== "true") writeFileSync(golden, outcome);
    expect(outcome).toBe(readFileSync(golden, "utf8"));
  });

  test("every golden file belongs to a scenario", () => {
    const goldens = readdirSync(folder).filter((file) => file.endsWith(".out.yaml"));
    expect(goldens.map((file) => file.replace(".out.", ".in."))).toEqual(scenarios);
  });
});

function outcomeOf(path: string, text: string): string {
  const { resources, problems, inForce } = parseManifests([{ path, text }]);
  const translation = translate(resources);
  const all = [...problems, ...locateProblems(translation.problems, inForce)];
  const { binds, backends, statuses, conflicts } = translation;
  runToEnd(assertSnapshot(translation));
  const outcome = {
    snapshot: { binds, backends: Object.fromEntries(backendsByKey(backends)) },
    statuses,
    problems: all.map(renderProblem),
    ...(conflicts.found.length > 0 && {
      conflicts: conflicts.found.map(({ rule, isReachable, winners, message }) => ({
        rule,
        isReachable,
        winners,
        message,
      })),
    }),
  };
  return render(outcome);
}

/** One line for a map of scalars, such as a condition: a scenario then fits on a page. */
function render(outcome: object): string {
  const document = new Document(outcome, { aliasDuplicateObjects: false });
  visit(document, {
    Collection: (_, node) => {
      node.flow = node.items.every((item) => isPair(item) && isScalar(item.value));
    },
  });
  return document.toString({ lineWidth: 0, flowCollectionPadding: false });
}
