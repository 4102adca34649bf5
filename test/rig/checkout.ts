/**
 * The checkout at a path that pods of the fake node can see. A pod has its own /tmp, which hides a checkout below /tmp
 * from the programs of the pod: no proxy would start.
 */
import { mkdir, rmdir } from "node:fs/promises";
import { join, relative } from "node:path";
import { rigHome } from "./binaries.ts";
import { run } from "./daemon.ts";

/** The folder that pods replace by one of their own. */
const hiddenFolder = "/tmp";

/** A folder at a path that pods can see. */
export interface VisibleFolder {
  /** Returns the path in pods of a file in the folder; other paths are unchanged. */
  readonly pathOf: (file: string) => string;
  /** Removes the second path. */
  readonly remove: () => Promise<void>;
}

/**
 * Makes a folder visible at a second path if pods cannot see the first one. Needs root, as the fake node does.
 *
 * @param name of the second path below the folder of the rig; two rigs on one machine need two.
 * @throws if the folder of the rig is hidden as well.
 */
export async function visibleFolder(folder: string, name: string, home = rigHome()): Promise<VisibleFolder> {
  if (!isBelow(hiddenFolder, folder)) return { pathOf: (file) => file, remove: () => Promise.resolve() };
  if (isBelow(hiddenFolder, home)) {
    throw new Error(
      `cannot start pods: the rig is in ${home}, and each pod has a ${hiddenFolder} of its own; set KUBE_RIG_HOME to a folder elsewhere`,
    );
  }
  const visible = join(home, "run", name);
  await mkdir(visible, { recursive: true });
  await run("mount", ["--bind", folder, visible]);
  return {
    pathOf: (file) => (isBelow(folder, file) ? join(visible, relative(folder, file)) : file),
    async remove() {
      // Programs of pods that are just ending may still use it.
      await run("umount", ["--lazy", visible]);
      await rmdir(visible);
    },
  };
}

function isBelow(folder: string, path: string): boolean {
  return path === folder || path.startsWith(`${folder}/`);
}
