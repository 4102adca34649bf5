import { renderProblem } from "@gatewayproxy/runtime/problem";
import { describe, expect, test } from "vitest";
import { parseManifests } from "../../proxy/src/api/parse-manifests.ts";
import { kindNames } from "../../proxy/src/api/resource.ts";
import { readPages } from "./markdown.ts";

const pages = readPages();

/** The code blocks of a page that are manifests, as files with the page and the index as their name. */
function manifestsOf({ path, text }: { readonly path: string; readonly text: string }) {
  const blocks = [...text.matchAll(/^```yaml\n([^]*?)^```/gm)].flatMap((match) => match[1] ?? []);
  const manifests = blocks.filter((block) => block.startsWith("apiVersion:"));
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

test("the page on configuration lists every kind that is read, and no other", () => {
  const page = pages.find(({ path }) => path === "docs/configuration.md");
  const rows = [...(page?.text ?? "").matchAll(/^\| `(\w+)` +\| `[\w./]+` +\|/gm)].flatMap((match) => match[1] ?? []);
  expect(rows.sort()).toEqual([...kindNames].sort());
});
