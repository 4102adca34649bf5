/** Manifests that a command is pointed at: files, folders, or standard input. */
import { readFile, stat } from "node:fs/promises";
import { text as readAll } from "node:stream/consumers";
import type { ManifestFile } from "@gatewayproxy/proxy/api/parse-manifests";
import { readManifestFolder } from "@gatewayproxy/proxy/source/manifest-folder";
import { CommandError, textOf } from "../command-error.ts";
import type { Io } from "../io.ts";

/** Everything that the paths hold; throws a `CommandError` at what cannot be read. */
export async function readManifests(paths: readonly string[], io: Io): Promise<readonly ManifestFile[]> {
  const files = await Promise.all(paths.map((path) => readPath(path, io)));
  return files.flat();
}

async function readPath(path: string, io: Io): Promise<readonly ManifestFile[]> {
  if (path === "-") return [{ path: "standard input", text: await readAll(io.stdin) }];
  try {
    if (!(await stat(path)).isDirectory()) return [{ path, text: await readFile(path, "utf8") }];
  } catch (error) {
    throw unreadable(path, textOf(error), error);
  }
  const entries = await readManifestFolder(path, () => undefined);
  return entries.map((entry) => {
    if ("fault" in entry) throw unreadable(entry.path, entry.fault);
    return entry;
  });
}

function unreadable(path: string, found: string, cause?: unknown): CommandError {
  return new CommandError({
    message: `read ${path}: ${found}`,
    advice: ["name a file or a folder of manifests with -f, or - for standard input"],
    cause,
  });
}
