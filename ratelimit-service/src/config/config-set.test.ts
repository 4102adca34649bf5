import { describe, expect, test } from "vitest";
import { ConfigSet } from "./config-set.ts";
import type { ConfigUpdate } from "./config-source.ts";
import { rulesOf } from "./rule.ts";

/** A file with one limit per key, `{ name: { domain, keys: { a: 1 } } }`. */
function file(name: string, domain: string, keys: Readonly<Record<string, number>>) {
  const descriptors = Object.entries(keys).map(
    ([key, requests]) => `  - key: ${key}\n    rate_limit: {unit: day, requests_per_unit: ${requests}}\n`,
  );
  return { key: name, file: `/limits/${name}`, text: `domain: ${domain}\ndescriptors:\n${descriptors.join("")}` };
}

function broken(name: string) {
  return { key: name, file: `/limits/${name}`, text: "domain: [\n" };
}

/** `{ "domain.key": requests }` of what is served; `undefined` while nothing is. */
function served(update: ConfigUpdate): Readonly<Record<string, number>> | undefined {
  if (update.config === undefined) return undefined;
  return Object.fromEntries([...rulesOf(update.config)].map((rule) => [rule.path, rule.limit?.requestsPerUnit ?? -1]));
}

function messages(update: ConfigUpdate): readonly string[] {
  return update.problems.map(({ resource, message }) => `${resource}: ${message}`);
}

function states(update: ConfigUpdate): Readonly<Record<string, string>> {
  return Object.fromEntries(update.parts.map(({ key, state }) => [key, state]));
}

describe("a set of configuration files", () => {
  test("serves every file", () => {
    const update = new ConfigSet(false).update([file("b", "two", { x: 2 }), file("a", "one", { x: 1 })]);
    expect(served(update)).toEqual({ "one.x": 1, "two.x": 2 });
    expect(states(update)).toEqual({ a: "current", b: "current" });
  });

  test("serves an empty configuration when there is no file", () => {
    expect(served(new ConfigSet(false).update([]))).toEqual({});
  });

  test("serves nothing while the only file has never been good", () => {
    const update = new ConfigSet(false).update([broken("a")]);
    expect(served(update)).toBeUndefined();
    expect(states(update)).toEqual({ a: "rejected" });
  });

  test("case 65: goes on with the others when one file is bad from the start", () => {
    const update = new ConfigSet(false).update([broken("a"), file("b", "two", { x: 2 })]);
    expect(served(update)).toEqual({ "two.x": 2 });
    expect(states(update)).toEqual({ a: "rejected", b: "current" });
    expect(messages(update)[0]).toMatch(/^a: error loading config file: /);
  });

  test("case 65: keeps the last good version of a file that broke, and takes the others' changes", () => {
    const set = new ConfigSet(false);
    set.update([file("a", "one", { x: 1 }), file("b", "two", { x: 2 })]);
    const update = set.update([broken("a"), file("b", "two", { x: 3 })]);
    expect(served(update)).toEqual({ "one.x": 1, "two.x": 3 });
    expect(states(update)).toEqual({ a: "last-good", b: "current" });
  });

  test("keeps the last good version of a file that cannot be read", () => {
    const set = new ConfigSet(false);
    set.update([file("a", "one", { x: 1 })]);
    const update = set.update([{ key: "a", file: "/limits/a", unreadable: "permission denied" }]);
    expect(served(update)).toEqual({ "one.x": 1 });
    expect(messages(update)).toEqual(["a: error loading config file: permission denied"]);
  });

  test("serves a mended file again", () => {
    const set = new ConfigSet(false);
    set.update([file("a", "one", { x: 1 })]);
    set.update([broken("a")]);
    const update = set.update([file("a", "one", { x: 9 })]);
    expect(served(update)).toEqual({ "one.x": 9 });
    expect(messages(update)).toEqual([]);
  });

  test("forgets a file that is gone", () => {
    const set = new ConfigSet(false);
    set.update([file("a", "one", { x: 1 }), file("b", "two", { x: 2 })]);
    expect(served(set.update([file("b", "two", { x: 2 })]))).toEqual({ "two.x": 2 });
  });

  test("blames the later of two files with one domain that came together", () => {
    const update = new ConfigSet(false).update([file("b", "one", { y: 2 }), file("a", "one", { x: 1 })]);
    expect(served(update)).toEqual({ "one.x": 1 });
    expect(messages(update)).toEqual(["b: duplicate domain 'one' in config file"]);
    expect(update.problems[0]?.location).toEqual({ file: "/limits/b", line: 1, column: 9 });
    expect(update.problems[0]?.hint).toBe("a has it");
  });

  test("blames the file that moved into another's domain, whatever their names", () => {
    const set = new ConfigSet(false);
    set.update([file("a", "one", { x: 1 }), file("b", "two", { x: 2 })]);
    const update = set.update([file("a", "two", { x: 5 }), file("b", "two", { x: 2 })]);
    expect(served(update)).toEqual({ "one.x": 1, "two.x": 2 });
    expect(states(update)).toEqual({ a: "last-good", b: "current" });
    expect(messages(update)).toEqual(["a: duplicate domain 'two' in config file"]);
  });

  test("lets two files exchange their domains at once", () => {
    const set = new ConfigSet(false);
    set.update([file("a", "one", { x: 1 }), file("b", "two", { x: 2 })]);
    const update = set.update([file("a", "two", { x: 1 }), file("b", "one", { x: 2 })]);
    expect(served(update)).toEqual({ "two.x": 1, "one.x": 2 });
    expect(messages(update)).toEqual([]);
  });

  test("keeps the rules of unchanged files as they are", () => {
    const set = new ConfigSet(false);
    const before = set.update([file("a", "one", { x: 1 }), file("b", "two", { x: 2 })]);
    const after = set.update([file("a", "one", { x: 1 }), file("b", "two", { x: 3 })]);
    const ruleOf = (update: ConfigUpdate) => update.config?.domains.get("one")?.byComposite.get("x")?.rule;
    expect(ruleOf(after)).toBe(ruleOf(before));
    expect(ruleOf(after)).toBeDefined();
  });
});

describe("with merging", () => {
  test("several files describe one domain", () => {
    const update = new ConfigSet(true).update([file("a", "one", { x: 1 }), file("b", "one", { y: 2 })]);
    expect(served(update)).toEqual({ "one.x": 1, "one.y": 2 });
  });

  test("a top-level key still belongs to one file", () => {
    const update = new ConfigSet(true).update([file("a", "one", { x: 1 }), file("b", "one", { x: 2, y: 3 })]);
    expect(served(update)).toEqual({ "one.x": 1 });
    expect(messages(update)).toEqual(["b: duplicate descriptor composite key 'one.x'"]);
    expect(update.problems[0]?.location).toMatchObject({ line: 3 });
  });
});
