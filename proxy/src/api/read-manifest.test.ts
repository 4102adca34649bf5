/** A file whose text changes: unchanged documents are not read again. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { usedMemory } from "../../../test/support/memory.ts";
import { type ParsedManifests, parseManifests } from "./parse-manifests.ts";
import type { ResourceKey } from "./resource.ts";

const documentOf = (name: string, version: number): string =>
  `apiVersion: v1\nkind: Namespace\nmetadata:\n  name: ${name}\n  labels: { version: "${version}" }\n`;

function parse(text: string, before?: ParsedManifests): ParsedManifests {
  return parseManifests([{ path: "a.yaml", text }], before);
}

function resourceOf({ inForce }: ParsedManifests, key: ResourceKey) {
  return inForce.get(key)?.resource;
}

test("an edit of one document leaves the objects of the others as they are, and locates them in the new text", () => {
  const anchored = documentOf("c", 1).replace("{ version", "&labels { version");
  const before = parse([documentOf("a", 1), documentOf("b", 1), anchored].join("---\n"));
  const after = parse([documentOf("a", 1), `# more\n${documentOf("b", 2)}`, anchored].join("---\n"), before);
  expect([...after.inForce.keys()]).toEqual(["Namespace a", "Namespace b", "Namespace c"]);
  expect(resourceOf(after, "Namespace a")).toBe(resourceOf(before, "Namespace a"));
  expect(resourceOf(after, "Namespace b")).toMatchObject({ metadata: { labels: { version: "2" } } });
  expect(resourceOf(after, "Namespace c")).toBe(resourceOf(before, "Namespace c"));
  const located = after.inForce.get("Namespace c")?.locate(["metadata", "name"]);
  expect(located).toEqual({ file: "a.yaml", line: 17, column: 9 });
});

const documents = fc.tuple(
  fc.constantFrom("a", "b", "c", "d"),
  fc.constantFrom(1, 2),
  fc.constantFrom<(text: string) => string>(
    (text) => text,
    (text) => `# a comment\n${text}\n\n`,
    (text) => text.replace("{ version", "&labels { version"),
    (text) => text.replaceAll("\n", "\r\n"),
    (text) => text.replace("Namespace", "Pod"),
    (text) => `kind: List\nitems:\n- ${text.trimEnd().replaceAll("\n", "\n  ")}\n`,
    () => "",
  ),
);
const texts = fc
  .array(documents, { maxLength: 6 })
  .map((all) => all.map(([name, version, write]) => write(documentOf(name, version))).join("---\n"));

test("a file that was edited is read as if it were new", () => {
  fc.assert(
    fc.property(fc.array(texts, { minLength: 2, maxLength: 5 }), (versions) => {
      let last: ParsedManifests | undefined;
      for (const text of versions) {
        last = parse(text, last);
        expect(contentOf(last)).toEqual(contentOf(parse(text)));
      }
    }),
    { seed: 1, numRuns: 200 },
  );
});

function contentOf({ inForce, problems, kept }: ParsedManifests) {
  const resources = Array.from(inForce.values(), ({ resource, locate, file }) => {
    return { resource, file, at: locate(["metadata", "labels", "version"]) };
  });
  return { resources, problems, kept };
}

test("the objects of a file that is edited often do not keep its earlier texts", async () => {
  const names = Array.from({ length: 40 }, (_, n) => `a-long-name-of-number-${n}`);
  const versions = names.map(() => 1);
  const filling = `# ${"x".repeat(78)}\n`.repeat(320);
  const text = () => filling + names.map((name, at) => documentOf(name, versions[at] ?? 0)).join("---\n");
  let current = parse(text());
  const before = await usedMemory();
  for (const at of names.keys()) {
    versions[at] = 2;
    current = parse(text(), current);
  }
  // Each text has 25 KiB.
  expect((await usedMemory()) - before).toBeLessThan(300 * 1024);
  expect(resourceOf(current, `Namespace ${names[0] ?? ""}`)).toMatchObject({ metadata: { labels: { version: "2" } } });
});

test("documents that are declared again are located only where they are reported", () => {
  const text = [documentOf("a", 1), documentOf("b", 1), documentOf("a", 2)].join("---\n");
  expect(parse(text).problems).toEqual([
    {
      message: "already declared at a.yaml:4:9; this declaration is ignored",
      resource: "Namespace a",
      location: { file: "a.yaml", line: 16, column: 9 },
    },
  ]);
});
