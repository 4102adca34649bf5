/** Reads the pages of this repository: their links and headings, and the commands and paths in them. */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";

export const repository = join(import.meta.dirname, "../..");

/** One Markdown file. */
export interface Page {
  /** Relative to the repository. */
  readonly path: string;
  readonly text: string;
}

/** Every Markdown file that git tracks or would track, by path. */
export function readPages(): readonly Page[] {
  const args = ["ls-files", "--cached", "--others", "--exclude-standard", "--", "*.md"];
  const paths = execFileSync("git", args, { cwd: repository, encoding: "utf8" }).split("\n");
  return [...new Set(paths)]
    .filter((path) => path !== "")
    .sort()
    .map((path) => ({ path, text: readFileSync(join(repository, path), "utf8") }));
}

/** The targets of inline links and images, `[text](target)`, outside code. */
export function linksOf(text: string): readonly string[] {
  return [...withoutCode(text).matchAll(/\]\(([^)\s]+)\)/g)].flatMap((match) => match[1] ?? []);
}

/** The anchors of GitHub for the headings of a page. */
export function anchorsOf(text: string): ReadonlySet<string> {
  const anchors = new Set<string>();
  for (const [, heading = ""] of text.replaceAll(/^```[^]*?^```/gm, "").matchAll(/^#{1,6} +(.+?) *$/gm)) {
    const slug = heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, "")
      .replaceAll(" ", "-");
    // The second heading with the same name gets a number.
    let anchor = slug;
    for (let count = 1; anchors.has(anchor); count += 1) anchor = `${slug}-${count}`;
    anchors.add(anchor);
  }
  return anchors;
}

/** The scripts that a page uses: `npm run X`, with or without flags, and the short forms such as `npm test`. */
export function npmScriptsOf(text: string): readonly string[] {
  const named = [...text.matchAll(/\bnpm run (?:--?[\w-]+ )*([\w:-]+)/g)].flatMap((match) => match[1] ?? []);
  const short = [...text.matchAll(/\bnpm (test|start)\b/g)].flatMap((match) => match[1] ?? []);
  return [...named, ...short];
}

function withoutCode(text: string): string {
  return text.replaceAll(/^```[^]*?^```/gm, "").replaceAll(/`[^`\n]*`/g, "");
}
