/**
 * The configuration files of a runtime folder in the layout of envoyproxy/ratelimit: every file below
 * RUNTIME_ROOT/RUNTIME_SUBDIRECTORY/RUNTIME_APPDIRECTORY, whatever its name, with its path as key (dots for slashes).
 * As in envoyproxy/ratelimit, symbolic links to folders are skipped and symbolic links to files are read: so a
 * ConfigMap volume (`limits.yaml` → `..data/limits.yaml`, `..data` → `..2026_11_21`) has its files once when dot files
 * are ignored.
 */
import { readdir, readFile, stat } from "node:fs/promises";
import { join, relative, sep } from "node:path";
import { errorMessage } from "@gatewayproxy/runtime/thrown-value";
import type { ConfigText } from "./config-set.ts";

/** The folder of configuration files. A file has at most 16 MiB. */
export interface RuntimeDirectory {
  /** The folder with the files. */
  readonly directory: string;
  /** The folder that the keys are relative to; `directory` or its parent (RUNTIME_WATCH_ROOT). */
  readonly keyRoot: string;
  /** Whether files and folders whose names begin with a dot are left out (RUNTIME_IGNOREDOTFILES). */
  readonly ignoresDotFiles: boolean;
}

/** A file, with a stamp that changes when its content does. */
export interface RuntimeFile {
  readonly key: string;
  readonly file: string;
  /** Device, inode, size and times. An edit, a rename and a swapped link change it, with or without file events. */
  readonly stamp: string;
}

/** Maximum size of a file. Larger files are not rate limit configuration, and reading them would starve the service. */
const maxFileBytes = 16 * 1024 * 1024;

/** Lists the files, sorted by key. Rejects when the folder, or one below it, cannot be read. */
export async function listRuntimeFiles(layout: RuntimeDirectory): Promise<readonly RuntimeFile[]> {
  const files: RuntimeFile[] = [];
  const root = join(layout.directory);
  const keyOfRoot = relative(layout.keyRoot, root).split(sep).join(".");
  await listFolder(root, keyOfRoot === "" ? "" : `${keyOfRoot}.`);
  return files.sort((a, b) => (a.key < b.key ? -1 : 1));

  // Paths are put together as texts, since every poll lists the folder.
  async function listFolder(folder: string, keyPrefix: string): Promise<void> {
    for (const entry of await readdir(folder, { withFileTypes: true })) {
      const { name } = entry;
      if (layout.ignoresDotFiles && name.startsWith(".")) continue;
      const file = `${folder}${folder.endsWith(sep) ? "" : sep}${name}`;
      if (entry.isDirectory()) {
        await listFolder(file, `${keyPrefix}${name}.`);
      } else {
        const stamp = await stampOf(file);
        if (stamp !== undefined) files.push({ key: keyPrefix + name, file, stamp });
      }
    }
  }
}

/** Reads listed files. A file that cannot be read has the reason in place of its text. */
export function readRuntimeFiles(files: readonly RuntimeFile[]): Promise<readonly ConfigText[]> {
  return Promise.all(files.map((file) => readRuntimeFile(file)));
}

async function readRuntimeFile({ key, file }: RuntimeFile): Promise<ConfigText> {
  try {
    const { size } = await stat(file);
    if (size > maxFileBytes) return { key, file, unreadable: `${size} bytes found, at most ${maxFileBytes} accepted` };
    const text = decodeText(await readFile(file));
    return text === undefined ? { key, file, unreadable: "the text is neither UTF-8 nor UTF-16" } : { key, file, text };
  } catch (error) {
    return { key, file, unreadable: errorMessage(error) };
  }
}

/** Decodes UTF-8, or UTF-16 with a byte order mark (YAML 1.1 §5.2); returns `undefined` for other bytes. */
function decodeText(bytes: Buffer): string | undefined {
  const mark = bytes.subarray(0, 2).toString("hex");
  const encoding = ({ fffe: "utf-16le", feff: "utf-16be" } as const)[mark] ?? "utf-8";
  try {
    return new TextDecoder(encoding, { fatal: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

/**
 * Returns the stamp of a file; `undefined` for a folder behind a link. A broken link has a stamp too, so that it is
 * read and reported.
 */
async function stampOf(file: string): Promise<string | undefined> {
  const stats = await stat(file, { bigint: true }).catch(() => undefined);
  if (stats === undefined) return "broken";
  if (stats.isDirectory()) return undefined;
  return `${stats.dev}:${stats.ino}:${stats.size}:${stats.mtimeNs}:${stats.ctimeNs}`;
}
