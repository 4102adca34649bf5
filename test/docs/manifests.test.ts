import { renderProblem } from "@gatewayproxy/runtime/problem";
import { describe, expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { parseManifests } from "../../proxy/src/api/parse-manifests.ts";
import { kindNames } from "../../proxy/src/api/resource.ts";
import { type Page, readPages } from "./markdown.ts";

const pages = readPages();

function yamlBlocksOf({ text }: Page): readonly string[] {
  return [...text.matchAll(/^```yaml\n([^]*?)^```/gm)].flatMap((match) => match[1] ?? []);
}

/** The code blocks of a page that are manifests, as files with the page and the index as their name. */
function manifestsOf(page: Page) {
  const { path } = page;
  const manifests = yamlBlocksOf(page).filter((block) => block.startsWith("apiVersion:"));
  return manifests.map((block, index) => ({ path: `${path}, manifest ${index + 1}`, text: block }));
}

describe("manifests in the documentation", () => {
  const files = pages.flatMap(manifestsOf);

  test("exist", () => {
    expect(files.length).toBeGreaterThan(1);
  });

  test.each(files)("$path is accepted", (file) => {
    const { problems, inForce } = parseManifests([file]);
    expect(problems.map(renderProblem)).toEqual([]);
    expect(inForce.size).toBeGreaterThan(0);
  });
});

test.each(pages.filter((page) => yamlBlocksOf(page).length > 0))("the blocks of YAML in $path are YAML", (page) => {
  for (const block of yamlBlocksOf(page)) {
    const problems = parseAllDocuments(block).flatMap(({ errors }) => errors.map(({ message }) => message));
    expect(problems, block).toEqual([]);
  }
});

test("the page on configuration lists every kind that is read, and no other", () => {
  const page = pages.find(({ path }) => path === "docs/configuration.md");
  const rows = [...(page?.text ?? "").matchAll(/^\| `(\w+)` +\| `[\w./]+` +\|/gm)].flatMap((match) => match[1] ?? []);
  expect(rows.sort()).toEqual([...kindNames].sort());
});
