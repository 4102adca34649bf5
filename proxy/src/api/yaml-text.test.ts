import { describe, expect, test } from "vitest";
import { slowness } from "../../../test/hardening/support/relative-cost.ts";
import { parseManifests } from "./parse-manifests.ts";
import { readYaml } from "./yaml-text.ts";

function valueOf(text: string): unknown {
  const [document] = readYaml({ path: "a.yaml", text });
  if (document === undefined) return undefined;
  return document.kind === "read" ? document.value : document.errors.map(({ message }) => message);
}

/** Texts of which each part costs a reader that is not careful as much as everything before it. */
const repeated: Readonly<Record<string, (index: number) => string>> = {
  "keys of a map": (index) => `${index}:\n`,
  "keys of a map in braces": (index) => `${index === 0 ? "{" : ""}k${index}: 1, `,
  aliases: (index) => (index === 0 ? "- &a 1\n" : "- *a\n"),
  "anchors and aliases": (index) => `- &a${index} 1\n- *a${index}\n`,
  "merge keys": (index) => (index === 0 ? "x: &a {b: 1}\n" : "<<: *a\n"),
  "nested keys": () => "? ",
  "nested lists": () => "- ",
  "nested brackets": () => "[",
  "nested maps": (index) => `${" ".repeat(index)}a:\n`,
  "nested keys of lists": () => "? - ",
  "nested maps on one line": () => "a: ",
  "nested keys in braces": (index) => (index === 0 ? "{" : "? "),
  "tags of one node": () => "!a ",
  documents: () => "--- a\n",
  commas: (index) => (index === 0 ? "[" : ","),
  "blank lines of a text": (index) => (index === 0 ? "a: |\n" : "\n"),
};

function repeat(part: (index: number) => string, length: number): string {
  const parts: string[] = [];
  for (let total = 0; total < length; total += parts.at(-1)?.length ?? 1) parts.push(part(parts.length));
  return parts.join("");
}

/** Milliseconds of processor time, so that other programs do not count. */
function cpuOf(act: () => void): number {
  const { user, system } = process.cpuUsage();
  act();
  const spent = process.cpuUsage({ user, system });
  return (spent.user + spent.system) / 1_000;
}

test.each(Object.entries(repeated))("takes time in proportion to the length for %s", (_, part) => {
  const text = repeat(part, 60_000);
  // Some 300 ms; what grows with the square of the length takes from 5 s to minutes.
  expect(cpuOf(() => readYaml({ path: "a.yaml", text }))).toBeLessThan(3_000 * slowness());
});

test.each(Object.entries(repeated))("takes time in proportion to the length for a file of %s", (_, part) => {
  const file = { path: "a.yaml", text: repeat(part, 60_000) };
  expect(cpuOf(() => parseManifests([file]))).toBeLessThan(3_000 * slowness());
});

test.each(Object.entries(repeated))("takes less than 100 ms for a bounded text of %s", (_, part) => {
  const text = repeat(part, 16_000);
  // The first time it is compiled meanwhile.
  const times = Array.from({ length: 3 }, () => cpuOf(() => readYaml({ path: "a.yaml", text }, 2_000)));
  expect(Math.min(...times)).toBeLessThan(100 * slowness());
});

test("rejects a text with more tokens than allowed", () => {
  const text = repeat((index) => `k${index}: 1\n`, 2_000);
  expect(readYaml({ path: "a.yaml", text }, 500)).toEqual([
    {
      kind: "unreadable",
      errors: [{ location: { file: "a.yaml", line: 1, column: 1 }, message: "text has more than 500 YAML tokens" }],
    },
  ]);
});

describe("maps", () => {
  test.each([["a: 1\nb: 2\na: 3\n"], ["{a: 1, b: 2, a: 3}"], ['1: x\n"1": y\n'], ["? a\n: 1\n? a\n: 2\n"]])(
    "with the same key twice are rejected: %j",
    (text) => {
      expect(valueOf(text)).toEqual(["invalid YAML: Map keys must be unique"]);
    },
  );

  test("with a collection as a key are rejected", () => {
    expect(valueOf("? [a]\n: 1\n")).toEqual(["invalid YAML: a key must be a text, not a collection"]);
  });

  test("merge others, whose fields do not win over their own", () => {
    expect(valueOf("- &a {x: 1, y: 1}\n- &b {y: 2, z: 2}\n- {x: 3, <<: [*a, *b]}\n- {<<: *b, <<: *a, z: 4}\n")).toEqual(
      [
        { x: 1, y: 1 },
        { y: 2, z: 2 },
        { x: 3, y: 1, z: 2 },
        { x: 1, y: 2, z: 4 },
      ],
    );
  });

  test("merge nothing but maps", () => {
    expect(valueOf("<<: 1\n")).toEqual(["invalid YAML: Merge sources must be maps or map aliases"]);
  });

  test("may have a key that objects inherit", () => {
    expect(valueOf("__proto__: {a: 1}\n")).toEqual(Object.fromEntries([["__proto__", { a: 1 }]]));
  });
});

describe("aliases", () => {
  test("stand for the value of the last anchor before them", () => {
    expect(valueOf("[&a {b: 1}, *a, &a 2, *a]")).toEqual([{ b: 1 }, { b: 1 }, 2, 2]);
  });

  test.each([
    ["before its anchor", "[*a, &a 1]", "invalid YAML: Unresolved alias (the anchor must be set before the alias): a"],
    ["around itself", "&a [*a]", "text is nested deeper than 64 levels"],
  ])("are rejected %s", (_, text, message) => {
    expect(valueOf(text)).toEqual([message]);
  });

  test.each([
    ["lists", (index: number) => `- &a${index} [${`*a${index - 1}, `.repeat(10)}]`],
    ["merged maps", (index: number) => `- &a${index} {x: *a${index - 1}, y: *a${index - 1}, <<: *a${index - 1}}`],
  ])("stand for a bounded number of values, in %s", (_, line) => {
    const text = ["- &a0 {z: 1}", ...Array.from({ length: 40 }, (_each, index) => line(index + 1))].join("\n");
    expect(valueOf(text)).toEqual(["invalid YAML: aliases stand for more than 100000 values"]);
  });

  test("do not hide how deep a document is", () => {
    const text = Array.from({ length: 70 }, (_, index) => `- &a${index} [${index === 0 ? "" : `*a${index - 1}`}]`);
    expect(valueOf(text.join("\n"))).toEqual(["text is nested deeper than 64 levels"]);
  });
});

test.each([
  ["braces", `${"{a: ".repeat(63)}[]${"}".repeat(63)}`],
  ["lines", Array.from({ length: 63 }, (_, index) => `${" ".repeat(index)}a:\n`).join("")],
  ["lists on one line", `${"- ".repeat(63)}x`],
])("reads what nests as deep as is accepted, in %s", (_, text) => {
  expect(readYaml({ path: "a.yaml", text })).toMatchObject([{ kind: "read" }]);
});
