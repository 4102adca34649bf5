/** The version of a program, as the manifest of its package has it. */
import { readFileSync } from "node:fs";
import * as z from "zod";

/** @param manifest a `package.json`. @throws where it cannot be read or has no version: it is ours, and has one. */
export function readVersion(manifest: URL): string {
  return z.object({ version: z.string() }).parse(JSON.parse(readFileSync(manifest, "utf8"))).version;
}
