/** Reads the version of a program from the manifest of its package. */
import { readFileSync } from "node:fs";

/** Returns the version in `manifest`, a `package.json`. @throws if it cannot be read or has no version. */
export function readVersion(manifest: URL): string {
  // The manifest is part of this repository, and npm checks it.
  const { version } = JSON.parse(readFileSync(manifest, "utf8")) as { readonly version?: string };
  if (version === undefined) throw new Error(`${manifest.href} has no version`);
  return version;
}
