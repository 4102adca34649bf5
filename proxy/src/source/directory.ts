/**
 * A folder of manifests as the source of configuration. It is published at the start and within half a second after
 * every change. An invalid resource keeps its previous version in force; a deleted resource is removed (see
 * `api/parse-manifests.ts`).
 */
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import type { Problem, Result } from "@gatewayproxy/runtime/problem";
import { runInSlices } from "@gatewayproxy/runtime/steps";
import { type ParsedManifests, parseManifestsInSteps } from "../api/parse-manifests.ts";
import { coalesce, type Coalescer } from "./coalesce.ts";
import { FileTexts } from "./file-texts.ts";
import { type FolderWatch, watchFolders } from "./folder-watch.ts";
import { type FolderEntry, readManifestFolder } from "./manifest-folder.ts";

/** Options of `openDirectorySource`. */
export interface DirectorySourceOptions {
  /** Called if the folder cannot be read or its content cannot be processed; the source retries. */
  readonly onFailure: (error: unknown) => void;
  /** A folder; its subfolders are read too, except names that begin with a dot. */
  readonly directory: string;
  /** The clock of the delay after a change. */
  readonly clock: Clock;
  /**
   * Receives a complete configuration: once before `openDirectorySource` resolves, then after each change of a file's
   * content. If `inForce` of the first one is empty, there is nothing to serve. Not called after `close`.
   */
  readonly publish: (configuration: ParsedManifests) => void;
}

/** An open folder. */
export interface DirectorySource {
  close(): Promise<void>;
}

/** Time without changes before the folder is read. The maximum leaves time to read and parse within half a second. */
const quietMs = 50;
const maxMs = 250;

/**
 * The interval of rescans, for changes without events: a deleted folder that is created again, the target of a link
 * outside of the folder, a network file system. Of an unchanged file, only the status is read.
 */
const rescanMs = 2_000;

/** Opens the folder and publishes its first configuration. Fails only for a folder that cannot be read. */
export async function openDirectorySource(options: DirectorySourceOptions): Promise<Result<DirectorySource>> {
  const { directory } = options;
  const source = new WatchedDirectory(options);
  const entries = await source.read();
  const problems = folderProblems(directory, entries);
  if (problems.length > 0) {
    await source.close();
    return { ok: false, problems };
  }
  await source.publish(entries);
  return { ok: true, value: source };
}

/** Returns the reason why a folder cannot be read; empty if it can. */
export async function checkFolder(directory: string): Promise<readonly Problem[]> {
  return folderProblems(directory, await readManifestFolder(directory, () => undefined));
}

function folderProblems(directory: string, entries: readonly FolderEntry[]): readonly Problem[] {
  const unreadable = entries.find((entry) => "error" in entry && entry.path === directory);
  if (unreadable === undefined || !("error" in unreadable)) return [];
  return [{ message: `cannot read the configuration folder ${JSON.stringify(directory)}: ${unreadable.error}` }];
}

class WatchedDirectory implements DirectorySource {
  readonly #options: DirectorySourceOptions;
  readonly #changes: Coalescer;
  readonly #watcher: FolderWatch;
  readonly #texts: FileTexts;
  #rescan: Timer;
  #current: ParsedManifests | undefined;
  /** The entries of the current configuration; undefined at first. */
  #entries: ReadonlyMap<string, FolderEntry> | undefined;
  #lastPublish: Promise<void> = Promise.resolve();
  /** Paths of files that were not empty when they were last read. */
  #nonEmpty: ReadonlySet<string> = new Set();
  #isClosed = false;

  constructor(options: DirectorySourceOptions) {
    this.#options = options;
    this.#texts = new FileTexts(options.clock);
    const action = async (): Promise<void> => this.publish(await this.read());
    this.#changes = coalesce({ clock: options.clock, quietMs, maxMs, action, onFailure: options.onFailure });
    this.#watcher = watchFolders(() => this.#changes.trigger());
    this.#rescan = this.#rescanLater();
  }

  /** Reads what has changed, and watches the existing folders. */
  async read(): Promise<readonly FolderEntry[]> {
    const folders = new Set<string>();
    const onFolder = (folder: string): void => {
      folders.add(folder);
      if (!this.#isClosed) this.#watcher.add(folder);
    };
    const entries = await readManifestFolder(this.#options.directory, onFolder, (path, status) =>
      this.#texts.text(path, status),
    );
    this.#texts.endPass();
    this.#watcher.retain(folders);
    return entries;
  }

  /** Publishes the content of the files, if it changed. */
  publish(found: readonly FolderEntry[]): Promise<void> {
    // The previous call may still run when the next change is found.
    const published = this.#lastPublish.then(() => this.#publishIfChanged(found));
    this.#lastPublish = published.catch(() => undefined);
    return published;
  }

  async #publishIfChanged(found: readonly FolderEntry[]): Promise<void> {
    const entries = found.map((entry) =>
      isEmptied(entry, this.#nonEmpty) ? { path: entry.path, error: emptiedMessage } : entry,
    );
    this.#nonEmpty = new Set(entries.filter((entry) => "error" in entry || entry.text !== "").map(({ path }) => path));
    if (this.#isClosed || (this.#entries !== undefined && areSame(entries, this.#entries))) return;
    this.#entries = new Map(entries.map((entry) => [entry.path, entry]));
    const parsed = await runInSlices(parseManifestsInSteps(entries, this.#current));
    if (this.#hasEnded()) return;
    this.#current = withEmptyFolderProblem(parsed, entries, this.#options.directory);
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
      this.#changes.trigger();
    });
  }
}

function areSame(entries: readonly FolderEntry[], before: ReadonlyMap<string, FolderEntry>): boolean {
  return entries.length === before.size && entries.every((entry) => isSame(entry, before.get(entry.path)));
}

function isSame(a: FolderEntry, b: FolderEntry | undefined): boolean {
  if (b === undefined) return false;
  return "error" in a ? "error" in b && a.error === b.error : "text" in b && a.text === b.text;
}

const emptiedMessage = "it is empty; its previous content stays in force until it is written or deleted";

/**
 * Whether a file was emptied. Writers such as `helm template … > all.yaml` truncate a file first and may take long to
 * write the new content.
 */
function isEmptied(entry: FolderEntry, nonEmptyBefore: ReadonlySet<string>): boolean {
  return "text" in entry && entry.text === "" && nonEmptyBefore.has(entry.path);
}

/** Reports an empty folder, which is valid but most likely a mistake. */
function withEmptyFolderProblem(
  parsed: ParsedManifests,
  entries: readonly FolderEntry[],
  directory: string,
): ParsedManifests {
  if (entries.length > 0) return parsed;
  const message = `folder ${JSON.stringify(directory)} contains no manifest, accepted are *.yaml, *.yml and *.json files`;
  return { ...parsed, problems: [...parsed.problems, { message }] };
}
