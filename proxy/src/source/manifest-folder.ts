/**
 * Reads all manifest files of a folder and its subfolders. Names that begin with a dot are skipped, such as the
 * temporary files of editors and the folder `..data` of a mounted ConfigMap, whose files are links through that folder.
 * Links are followed.
 */
import { type BigIntStats, type Dirent, stat } from "node:fs";
import { readdir, readFile, realpath } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import type { ManifestFile, UnreadableFile } from "../api/parse-manifests.ts";

/** A manifest file, or a file or folder that cannot be read. */
export type FolderEntry = ManifestFile | UnreadableFile;

/** Takes a quarter of the processor time of the function in `node:fs/promises`. */
const statusOf = promisify(stat);

/**
 * Reads all manifests, in no particular order. A file or folder that cannot be read, including the outermost one, is an
 * entry with its error. A file that is deleted during the call is left out. Never rejects.
 *
 * @param onFolder called with the real path of each folder before it is read, so that a watch on it misses nothing.
 * @param readText reads a file, whose status is known.
 */
export async function readManifestFolder(
  folder: string,
  onFolder: (realPath: string) => void,
  readText = (path: string, _status: BigIntStats): Promise<string> => readFile(path, "utf8"),
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

  async function read(path: string, entry: Dirent): Promise<readonly FolderEntry[]> {
    const isManifest = /\.(ya?ml|json)$/.test(path);
    if (entry.isFile() && !isManifest) return [];
    try {
      if (entry.isDirectory()) return await readFolder(path);
      // The target of a link may be a folder.
      const status = await statusOf(path, { bigint: true });
      if (status.isDirectory()) return await readFolder(path);
      if (!status.isFile() || !isManifest) return [];
      return [{ path, text: await readText(path, status) }];
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
