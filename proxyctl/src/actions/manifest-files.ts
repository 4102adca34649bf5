/** Reads the manifests of a command line: files, folders, or standard input. */
import { readFile, stat } from "node:fs/promises";
import { text as readAll } from "node:stream/consumers";
import type { ManifestFile } from "@gatewayproxy/proxy/parse-manifests";
import { readManifestFolder } from "@gatewayproxy/proxy/manifest-folder";
import { CommandError, textOf } from "../command-error.ts";
import type { Io } from "../io.ts";

/** The manifests below the given paths. */
export interface ManifestSet {
  readonly files: readonly ManifestFile[];
  /** Paths of files that the command line names, without those found in a folder. */
  readonly named: ReadonlySet<string>;
  readonly hasFolder: boolean;
}

/** Reads all manifests below the paths. Throws a `CommandError` for a file that cannot be read. */
export async function readManifests(paths: readonly string[], io: Io): Promise<ManifestSet> {
  const read = await Promise.all(paths.map((path) => readPath(path, io)));
  return {
    files: read.flatMap(({ files }) => files),
    named: new Set(read.flatMap(({ isFolder }, at) => (isFolder ? [] : (paths[at] ?? [])))),
    hasFolder: read.some(({ isFolder }) => isFolder),
  };
}

async function readPath(
  path: string,
  io: Io,
): Promise<{ readonly isFolder: boolean; readonly files: readonly ManifestFile[] }> {
  if (path === "-") return { isFolder: false, files: [{ path: "standard input", text: await readAll(io.stdin) }] };
  try {
    const isFolder = (await stat(path)).isDirectory();
    if (!isFolder) return { isFolder, files: [{ path, text: await readFile(path, "utf8") }] };
  } catch (error) {
    throw unreadable(path, textOf(error), error);
  }
  const entries = await readManifestFolder(path, () => undefined);
  const files = entries.map((entry) => {
    if ("error" in entry) throw unreadable(entry.path, entry.error);
    return entry;
  });
  return { isFolder: true, files };
}

function unreadable(path: string, found: string, cause?: unknown): CommandError {
  return new CommandError({
    message: `read ${path}: ${found}`,
    advice: ["name a file or a folder of manifests with -f, or - for standard input"],
    cause,
  });
}
