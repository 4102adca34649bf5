/** The licences of the packages in a bundle. */
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { OutputChunk } from "rolldown";

/** Returns the licence text of each bundled package, sorted by folder. */
export async function licensesOf(chunks: readonly OutputChunk[]): Promise<string> {
  const folders = new Set(
    chunks.flatMap(({ moduleIds }) =>
      moduleIds.flatMap((id) => /^\0?(.*\/node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(id)?.[1] ?? []),
    ),
  );
  const texts = [...folders].sort().map(async (folder) => {
    const { name, version, license } = JSON.parse(await readFile(join(folder, "package.json"), "utf8")) as Licensed;
    const file = (await readdir(folder)).find((each) => /^(licen[cs]e|copying)/i.test(each));
    const text = file === undefined ? "" : `\n${await readFile(join(folder, file), "utf8")}`;
    return `${name} ${version} (${license ?? "no licence is named"})\n${text}`;
  });
  return (await Promise.all(texts)).join(`\n${"-".repeat(80)}\n\n`);
}

interface Licensed {
  readonly name: string;
  readonly version: string;
  readonly license?: string;
}
