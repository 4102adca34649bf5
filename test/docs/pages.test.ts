import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { describe, expect, test } from "vitest";
import { anchorsOf, linksOf, npmScriptsOf, readPages, repository } from "./markdown.ts";

const pages = readPages();
const textOf = new Map(pages.map((page) => [page.path, page.text]));

/** Paths in code spans, from the repository or, as ARCHITECTURE.md writes the proxy's layers, from its sources. */
function missingPathsIn(text: string): readonly string[] {
  const roots = [repository, join(repository, "proxy/src")];
  const folders = new Set(roots.flatMap((root) => readdirSync(root)));
  const named = [...text.matchAll(/`([\w.-]+\/[\w./-]*)`/g)].flatMap((match) => match[1] ?? []);
  const ours = named.filter((path) => folders.has(path.split("/")[0] ?? ""));
  return ours.filter((path) => !roots.some((root) => existsSync(join(root, path))));
}

describe.each(pages)("$path", ({ path, text }) => {
  test("links to files and headings that exist", () => {
    const broken = linksOf(text)
      .filter((link) => !/^[a-z]+:/.test(link))
      .filter((link) => {
        const [file = "", anchor] = link.split("#");
        const target = file === "" ? path : normalize(join(dirname(path), file));
        if (!existsSync(join(repository, target))) return true;
        return anchor !== undefined && !anchorsOf(textOf.get(target) ?? "").has(anchor);
      });
    expect(broken).toEqual([]);
  });

  test("names npm scripts that exist", () => {
    const manifest: unknown = JSON.parse(readFileSync(join(repository, "package.json"), "utf8"));
    const { scripts } = manifest as { scripts: Record<string, string> };
    expect(npmScriptsOf(text).filter((name) => !(name in scripts))).toEqual([]);
  });
});

test.each(["README.md", "ARCHITECTURE.md"])("%s names folders and files that exist", (path) => {
  expect(missingPathsIn(textOf.get(path) ?? "")).toEqual([]);
});

test("every page of docs can be reached by links from README or ARCHITECTURE", () => {
  const reached = new Set<string>(["README.md", "ARCHITECTURE.md"]);
  for (const path of reached) {
    for (const link of linksOf(textOf.get(path) ?? "")) {
      const target = normalize(join(dirname(path), link.split("#")[0] ?? ""));
      // A link to a folder shows the list of its pages.
      for (const page of textOf.keys()) if (page === target || dirname(page) === target) reached.add(page);
    }
  }
  expect([...textOf.keys()].filter((path) => path.startsWith("docs/") && !reached.has(path))).toEqual([]);
});
