import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { describe, expect, test } from "vitest";
import { anchorsOf, linksOf, npmScriptsOf, readPages, repository } from "./markdown.ts";

const pages = readPages();
const textOf = new Map(pages.map((page) => [page.path, page.text]));

function pathsNamedIn(text: string): readonly string[] {
  const folders = readdirSync(repository).filter((name) => !name.includes("."));
  const inCode = [...text.matchAll(/`([\w.-]+\/[\w./-]*)`/g)].flatMap((match) => match[1] ?? []);
  return inCode.filter((path) => folders.includes(path.split("/")[0] ?? ""));
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
  const named = pathsNamedIn(textOf.get(path) ?? "");
  expect(named.filter((each) => !existsSync(join(repository, each)))).toEqual([]);
});

test("every page of docs is within reach of README or ARCHITECTURE", () => {
  const reached = new Set<string>(["README.md", "ARCHITECTURE.md"]);
  for (const path of reached) {
    for (const link of linksOf(textOf.get(path) ?? "")) {
      const target = normalize(join(dirname(path), link.split("#")[0] ?? ""));
      if (textOf.has(target)) reached.add(target);
    }
  }
  expect([...textOf.keys()].filter((path) => path.startsWith("docs/") && !reached.has(path))).toEqual([]);
});
