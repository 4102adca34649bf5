/**
 * Reads all manifest files of a folder and its subfolders. Names that begin with a dot are skipped, such as the
 * temporary files of editors and the folder `..data` of a mounted ConfigMap, whose files are links through that folder.
 * Links are followed.
 */
import type { Dirent } from "node:fs";
import { readdir, readFile, realpath, stat } from "node:fs/promises";
import { join } from "node:path";
import type { ManifestFile, UnreadableFile } from "../api/parse-manifests.ts";

/** A manifest file, or a file or folder that cannot be read. */
export type FolderEntry = ManifestFile | UnreadableFile;

/**
 * Reads all manifests, in no particular order. A file or folder that cannot be read, including the outermost one, is an
 * entry with its error. A file that is deleted during the call is left out. Never rejects.
 *
 * @param onFolder called with the real path of each folder before it is read, so that a watch on it misses nothing.
 */
export async function readManifestFolder(
  folder: string,
  onFolder: (realPath: string) => void,
): Promise<readonly FolderEntry[]> {
  const visited = new Set<string>();

  async function readFolder(path: string): Promise<readonly FolderEntry[]> {
    try {
      const real = await realpath(path);
      // A link to an enclosing folder would cause an endless recursion.
      if (visited.has(real)) return [];
      visited.add(real);
      onFolder(real);
      const found = await readdir(path, { withFileTypes: true });
      const entries = await Promise.all(
        found.filter(({ name }) => !name.startsWith(".")).map((entry) => read(join(path, entry.name), entry)),
      );
      return entries.flat();
    } catch (error) {
      return [{ path, error: describeError(error) }];
    }
  }

  /** @param entry what the folder says of it, which is enough for all but links. */
  async function read(path: string, entry: Dirent): Promise<readonly FolderEntry[]> {
    try {
      const target = entry.isFile() || entry.isDirectory() ? entry : await stat(path);
      if (target.isDirectory()) return await readFolder(path);
      if (!target.isFile() || !/\.(ya?ml|json)$/.test(path)) return [];
      return [{ path, text: await readFile(path, "utf8") }];
    } catch (error) {
      return codeOf(error) === "ENOENT" ? [] : [{ path, error: describeError(error) }];
    }
  }

  return await readFolder(folder);
}

const errors: Readonly<Record<string, string>> = {
  ENOENT: "it does not exist",
  ENOTDIR: "it is not a folder",
  EACCES: "permission denied",
  ELOOP: "its symbolic links form a loop",
};

function describeError(error: unknown): string {
  const code = codeOf(error);
  return errors[code] ?? (error instanceof Error ? error.message : "unknown error");
}

function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : "";
}
