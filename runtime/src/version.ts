/** The version of a program, as the manifest of its package has it. */
import { readFileSync } from "node:fs";

/** @param manifest a `package.json`. @throws where it cannot be read or has no version: it is ours, and has one. */
export function readVersion(manifest: URL): string {
  // Ours, and held by npm's own checks.
  const { version } = JSON.parse(readFileSync(manifest, "utf8")) as { readonly version?: string };
  if (version === undefined) throw new Error(`${manifest.href} has no version`);
  return version;
}
