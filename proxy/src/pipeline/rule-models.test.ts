import { expect, test } from "vitest";
import type { AiBackend } from "../ir/snapshot.ts";
import { compileModels, type ModelTarget } from "./rule-models.ts";

/** A target of a Backend. @param models `name` or `name>as`; absent: it has no list. */
function target(models?: readonly string[], weight = 1, provider: AiBackend["provider"] = "openai"): ModelTarget {
  const list = models?.map((text) => {
    const [name = "", as = name] = text.split(">");
    return { name, as };
  });
  return { weight, ai: { provider, ...(list && { models: list }) } };
}

/** An invalid target, or a Service. */
const other: ModelTarget = { weight: 1 };

/** The targets of `count` requests for a model, each as its place in the rule and the model that its provider gets. */
function picks(targets: readonly ModelTarget[], model: string | undefined, count: number): readonly string[] {
  const placed = targets.map((each, place) => ({ ...each, place }));
  const models = compileModels(placed, () => []);
  return Array.from({ length: count }, () => {
    const found = models?.pick(model);
    return found === undefined ? "none" : [found.place, found.ai?.model].filter((part) => part !== undefined).join(" ");
  });
}

test.each<readonly [string, readonly ModelTarget[], string | undefined, readonly string[]]>([
  ["the only target that lists it", [target(["a"]), target(["b>x"])], "b", ["1 x", "1 x"]],
  ["those that list it, by weight", [target(["a"], 1), target(["a"], 3)], "a", ["1 a", "0 a", "1 a", "1 a"]],
  ["one with a list before one without", [target(), target(["a"])], "a", ["1 a", "1 a"]],
  ["one without a list, as the client names it", [target(["a"]), target()], "b", ["1", "1"]],
  ["an invalid target, whose list is unknown", [target(["a"]), other], "b", ["1", "1"]],
  ["none", [target(["a>b"])], "b", ["none", "none"]],
  ["none where the target that lists it has the weight 0", [target(["a"]), target(["b"], 0)], "b", ["none", "none"]],
  ["one without a list, if the request names no model", [target(["a"]), target()], undefined, ["1", "1"]],
  ["any, if the request names no model and all have lists", [target(["a"]), target(["b"])], undefined, ["0", "1"]],
])("a model goes to %s", (_title, targets, model, expected) => {
  expect(picks(targets, model, expected.length)).toEqual(expected);
});

test("a rule without lists, or whose lists have the weight 0, has no choice by model", () => {
  expect(compileModels([target(), other], () => [])).toBeUndefined();
  expect(compileModels([target(["a"], 0), target()], () => [])).toBeUndefined();
});

test("the list has each model once, with the provider if there is one", () => {
  const both = compileModels([target(["a", "b"]), target(["b", "c"])], () => []);
  expect([both?.listed.map(({ name }) => name), both?.provider]).toEqual([["a", "b", "c"], "openai"]);
  const mixed = compileModels([target(["a"]), target(["b"], 1, "anthropic")], () => []);
  expect([mixed?.listed.map(({ provider }) => provider), mixed?.provider]).toEqual([
    ["openai", "anthropic"],
    undefined,
  ]);
});
