/** Where fields stand, when the syntax tree is at hand and when it has been dropped. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { usedMemory } from "../../../test/support/memory.ts";
import { readYaml } from "./yaml-text.ts";

const paths = [[], ["a"], ["a", "b"], ["a", "b", 1], ["a", "b", 1, "c"], ["items", 1, "name"], ["nothing"]] as const;

const documents = fc.constantFrom(
  "a: 1\n",
  "a:\n  b:\n  - x\n  - c: y\n",
  "a: {b: [x, {c: y}]}\n",
  "# a comment\na: &x {b: [x, {c: y}]}\nd: *x\n",
  "items:\n- name: x\n- {name: y}\n",
  '{"a": {"b": ["x", {"c": "y"}]}}\n',
  "a: |\n  text\n\n  more\n",
  "",
  "null\n",
  "[\n",
);
const separators = fc.constantFrom(
  "---\n",
  "--- # comment\n",
  "---\n# a comment\n---\n",
  "...\n---\n",
  "... # end\n",
  "...\n%YAML 1.2\n---\n",
  "\n\n---\n",
);

test("fields are located where they were when the text was parsed", async () => {
  const texts = fc.sample(
    fc
      .tuple(fc.constantFrom("", "\ufeff", "%YAML 1.2\n---\n", "# first\n"), fc.array(fc.tuple(documents, separators)))
      .chain(([start, parts]) =>
        fc.constantFrom("\n", "\r\n").map((end) => (start + parts.flat().join("")).replaceAll("\n", end)),
      ),
    { numRuns: 60, seed: 1 },
  );
  const read = texts.flatMap((text) =>
    readYaml({ path: "a.yaml", text }).flatMap((document) => {
      if (document.kind === "unreadable") return [];
      const locate = () => paths.flatMap((path) => [document.locate(path), document.locate(path, true)]);
      return [{ text, locate, before: locate() }];
    }),
  );
  expect(read.length).toBeGreaterThan(60);
  await usedMemory();
  for (const { text, locate, before } of read) expect({ text, found: locate() }).toEqual({ text, found: before });
});

test("a text that has been read takes the memory of its values", async () => {
  const document = (at: number) =>
    `--- # ${at}\nlist:\n${Array.from({ length: 100 }, (_, n) => `- {name: n${n}, value: v}\n`).join("")}`;
  const text = Array.from({ length: 200 }, (_, at) => document(at)).join("");
  const before = await usedMemory();
  const held = readYaml({ path: "a.yaml", text });
  const taken = (await usedMemory()) - before;
  expect(held).toHaveLength(200);
  // 20,000 maps of two fields. Their nodes are some 20 MiB.
  expect(taken).toBeLessThan(5 * 1024 * 1024);
});
