/**
 * A folder of manifests as the source of configuration: publishes all of it at start and again after every change,
 * within half a second. What is bad keeps its last good version in force; what is deleted goes (see
 * `api/parse-manifests.ts`).
 */
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import type { Problem, Result } from "@gatewayproxy/runtime/problem";
import { inTurns } from "@gatewayproxy/runtime/steps";
import { type ParsedManifests, parseManifestsInSteps } from "../api/parse-manifests.ts";
import { coalesce, type Coalescer } from "./coalesce.ts";
import { type FolderWatch, watchFolders } from "./folder-watch.ts";
import { type FolderEntry, readManifestFolder } from "./manifest-folder.ts";

export interface DirectorySourceOptions {
  /** Told when the folder could not be read or its content not taken; it is tried again. */
  readonly onFailure: (error: unknown) => void;
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
  const { directory } = options;
  const source = new WatchedDirectory(options);
  const entries = await source.read();
  const problems = folderFaults(directory, entries);
  if (problems.length > 0) {
    await source.close();
    return { ok: false, problems };
  }
  await source.take(entries);
  return { ok: true, value: source };
}

/** Why a folder cannot be read at all; empty where it can. */
export async function judgeFolder(directory: string): Promise<readonly Problem[]> {
  return folderFaults(directory, await readManifestFolder(directory, () => undefined));
}

function folderFaults(directory: string, entries: readonly FolderEntry[]): readonly Problem[] {
  const unreadable = entries.find((entry) => "fault" in entry && entry.path === directory);
  if (unreadable === undefined || !("fault" in unreadable)) return [];
  return [{ message: `cannot read the configuration folder ${JSON.stringify(directory)}: ${unreadable.fault}` }];
}

class WatchedDirectory implements DirectorySource {
  readonly #options: DirectorySourceOptions;
  readonly #changes: Coalescer;
  readonly #watcher: FolderWatch;
  #rescan: Timer;
  #current: ParsedManifests | undefined;
  /** What the current configuration was made of; undefined at first. */
  #entries: ReadonlyMap<string, FolderEntry> | undefined;
  #turn: Promise<void> = Promise.resolve();
  /** Files that have held something. */
  #written: ReadonlySet<string> = new Set();
  #isClosed = false;

  constructor(options: DirectorySourceOptions) {
    this.#options = options;
    const action = async (): Promise<void> => this.take(await this.read());
    this.#changes = coalesce({ clock: options.clock, quietMs, maxMs, action, onFailure: options.onFailure });
    this.#watcher = watchFolders(() => this.#changes.poke());
    this.#rescan = this.#rescanLater();
  }

  /** Reads all files, and watches the folders that are there. */
  async read(): Promise<readonly FolderEntry[]> {
    const folders = new Set<string>();
    const entries = await readManifestFolder(this.#options.directory, (folder) => {
      folders.add(folder);
      if (!this.#isClosed) this.#watcher.add(folder);
    });
    this.#watcher.retain(folders);
    return entries;
  }

  /** Publishes what the files say, if that is another thing than before. */
  take(found: readonly FolderEntry[]): Promise<void> {
    // The first one may not have ended when something changes.
    const taken = this.#turn.then(() => this.#take(found));
    this.#turn = taken.catch(() => undefined);
    return taken;
  }

  async #take(found: readonly FolderEntry[]): Promise<void> {
    const entries = found.map((entry) =>
      isEmptied(entry, this.#written) ? { path: entry.path, fault: emptied } : entry,
    );
    this.#written = new Set(entries.filter((entry) => "fault" in entry || entry.text !== "").map(({ path }) => path));
    if (this.#isClosed || (this.#entries !== undefined && areSame(entries, this.#entries))) return;
    this.#entries = new Map(entries.map((entry) => [entry.path, entry]));
    const parsed = await inTurns(parseManifestsInSteps(entries, this.#current));
    if (this.#hasEnded()) return;
    this.#current = withEmptinessTold(parsed, entries, this.#options.directory);
    this.#options.publish(this.#current);
  }

  #hasEnded(): boolean {
    return this.#isClosed;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#rescan.cancel();
    this.#watcher.close();
    await this.#changes.close();
  }

  #rescanLater(): Timer {
    return this.#options.clock.setTimer(rescanMs, () => {
      this.#rescan = this.#rescanLater();
      this.#changes.poke();
    });
  }
}

function areSame(entries: readonly FolderEntry[], before: ReadonlyMap<string, FolderEntry>): boolean {
  return entries.length === before.size && entries.every((entry) => isSame(entry, before.get(entry.path)));
}

function isSame(a: FolderEntry, b: FolderEntry | undefined): boolean {
  if (b === undefined) return false;
  return "fault" in a ? "fault" in b && a.fault === b.fault : "text" in b && a.text === b.text;
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
