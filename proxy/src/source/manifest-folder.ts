/**
 * Reads all manifest files of a folder and the folders below it. Names that begin with a dot are skipped, as editors'
 * and Kubernetes' own: a mounted ConfigMap shows its files as links through `..data`, which are followed.
 */
import { readdir, readFile, realpath, stat } from "node:fs/promises";
import { join } from "node:path";
import type { ManifestFile, UnreadableFile } from "../api/parse-manifests.ts";

export type FolderEntry = ManifestFile | UnreadableFile;

/**
 * All manifests, in no particular order. A file that cannot be read is an entry that says so, and so is a folder, the
 * outermost one included; a file that vanishes while the folder is read is none. Never rejects.
 *
 * @param onFolder told the real path of each folder before it is read, so that a watch set up there misses nothing.
 */
export async function readManifestFolder(
  folder: string,
  onFolder: (realPath: string) => void,
): Promise<readonly FolderEntry[]> {
  const visited = new Set<string>();

  async function readFolder(path: string): Promise<readonly FolderEntry[]> {
    try {
      const real = await realpath(path);
      // A link to a folder around it would never end.
      if (visited.has(real)) return [];
      visited.add(real);
      onFolder(real);
      const names = await readdir(path);
      const entries = await Promise.all(
        names.filter((name) => !name.startsWith(".")).map((name) => read(join(path, name))),
      );
      return entries.flat();
    } catch (error) {
      return [{ path, fault: describeFault(error) }];
    }
  }

  async function read(path: string): Promise<readonly FolderEntry[]> {
    try {
      const target = await stat(path);
      if (target.isDirectory()) return await readFolder(path);
      if (!target.isFile() || !/\.(ya?ml|json)$/.test(path)) return [];
      return [{ path, text: await readFile(path, "utf8") }];
    } catch (error) {
      return codeOf(error) === "ENOENT" ? [] : [{ path, fault: describeFault(error) }];
    }
  }

  return await readFolder(folder);
}

const faults: Readonly<Record<string, string>> = {
  ENOENT: "it does not exist",
  ENOTDIR: "it is no folder",
  EACCES: "permission denied",
  ELOOP: "its links lead in a circle",
};

function describeFault(error: unknown): string {
  const code = codeOf(error);
  return faults[code] ?? (error instanceof Error ? error.message : "unknown fault");
}

function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : "";
}
