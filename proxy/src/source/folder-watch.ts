/**
 * Watches a changing set of folders, with one watch for each. Node's recursive watch on Linux opens folders late and
 * follows no links, so it misses files of a new folder and the swap of a mounted ConfigMap.
 */
import { type FSWatcher, watch } from "node:fs";

/** A set of watched folders. */
export interface FolderWatch {
  /** Starts to watch a folder, if it is not watched yet. */
  add(folder: string): void;
  /** Stops watching all folders but these. */
  retain(folders: ReadonlySet<string>): void;
  close(): void;
}

/**
 * Creates an empty set. A folder that cannot be watched (a limit of the system, a file system without events) is left
 * out silently, because callers also rescan regularly.
 *
 * @param onEvent called when something in a watched folder may have changed.
 */
export function watchFolders(onEvent: () => void): FolderWatch {
  const watchers = new Map<string, FSWatcher>();

  function unwatch(folder: string): void {
    watchers.get(folder)?.close();
    watchers.delete(folder);
  }

  return {
    add(folder) {
      if (watchers.has(folder)) return;
      try {
        const watcher = watch(folder, { persistent: false }, onEvent);
        watcher.on("error", () => {
          unwatch(folder);
          onEvent();
        });
        watchers.set(folder, watcher);
      } catch {
        // See above.
      }
    },
    retain(folders) {
      for (const folder of watchers.keys()) if (!folders.has(folder)) unwatch(folder);
    },
    close() {
      for (const folder of [...watchers.keys()]) unwatch(folder);
    },
  };
}
