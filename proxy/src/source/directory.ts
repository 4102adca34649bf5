/**
 * A folder of manifests as the source of configuration: publishes all of it at start and again after every change,
 * within half a second. What is bad keeps its last good version in force; what is deleted goes (see
 * `api/parse-manifests.ts`).
 */
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { Result } from "@gatewayproxy/runtime/problem";
import { type ParsedManifests, parseManifests } from "../api/parse-manifests.ts";
import { coalesce } from "./coalesce.ts";
import { watchFolders } from "./folder-watch.ts";
import { type FolderEntry, readManifestFolder } from "./manifest-folder.ts";

export interface DirectorySourceOptions {
  readonly directory: string;
  readonly clock: Clock;
  /**
   * Takes a complete configuration: once before `openDirectorySource` resolves, then after each change of the texts.
   * A first one whose `inForce` is empty has nothing to serve. Not called after `close` has been.
   */
  readonly publish: (configuration: ParsedManifests) => void;
}

export interface DirectorySource {
  close(): Promise<void>;
}

/** Waits for the end of a save, and no longer: 250 ms with reading and parsing leave room in the half second. */
const quietMs = 50;
const maxMs = 250;

/**
 * Looks by itself this often, for what brings no event: a folder that was deleted and comes back, the target of a link
 * elsewhere, a network file system. Unchanged texts are not parsed again.
 */
const rescanMs = 2_000;

/** Opens the folder and publishes its first configuration. A folder that cannot be read is the only failure. */
export async function openDirectorySource(options: DirectorySourceOptions): Promise<Result<DirectorySource>> {
  const { directory, clock, publish } = options;
  let current: ParsedManifests | undefined;
  let texts: string | undefined;
  /** Files that have held something. */
  let written: ReadonlySet<string> = new Set();
  let isClosed = false;

  async function read(): Promise<readonly FolderEntry[]> {
    const folders = new Set<string>();
    const entries = await readManifestFolder(directory, (folder) => {
      folders.add(folder);
      if (!isClosed) watcher.add(folder);
    });
    watcher.retain(folders);
    return entries;
  }

  function take(found: readonly FolderEntry[]): void {
    const entries = found.map((entry) => (isEmptied(entry, written) ? { path: entry.path, fault: emptied } : entry));
    written = new Set(entries.filter((entry) => "fault" in entry || entry.text !== "").map(({ path }) => path));
    const newTexts = JSON.stringify([...entries].sort((a, b) => (a.path < b.path ? -1 : 1)));
    if (isClosed || newTexts === texts) return;
    texts = newTexts;
    current = withEmptinessTold(parseManifests(entries, current), entries, directory);
    publish(current);
  }

  const changes = coalesce({ clock, quietMs, maxMs, action: async () => take(await read()) });
  const watcher = watchFolders(() => changes.poke());
  let rescan = clock.setTimer(rescanMs, lookAgain);
  function lookAgain(): void {
    changes.poke();
    rescan = clock.setTimer(rescanMs, lookAgain);
  }

  const source: DirectorySource = {
    async close() {
      isClosed = true;
      rescan.cancel();
      watcher.close();
      await changes.close();
    },
  };

  const entries = await read();
  const unreadable = entries.find((entry) => "fault" in entry && entry.path === directory);
  if (unreadable !== undefined && "fault" in unreadable) {
    await source.close();
    const message = `cannot read the configuration folder ${JSON.stringify(directory)}: ${unreadable.fault}`;
    return { ok: false, problems: [{ message }] };
  }
  take(entries);
  return { ok: true, value: source };
}

const emptied = "it is empty; what it held stays until it is written or deleted";

/** Whoever writes a file makes it empty first, and may be long about the rest: `helm template … > all.yaml`. */
function isEmptied(entry: FolderEntry, written: ReadonlySet<string>): boolean {
  return "text" in entry && entry.text === "" && written.has(entry.path);
}

/** An empty folder is no fault of any text, and yet the likeliest mistake. */
function withEmptinessTold(
  parsed: ParsedManifests,
  entries: readonly FolderEntry[],
  directory: string,
): ParsedManifests {
  if (entries.length > 0) return parsed;
  const message = `folder ${JSON.stringify(directory)} holds no manifest, accepted are *.yaml, *.yml and *.json files`;
  return { ...parsed, problems: [...parsed.problems, { message }] };
}
