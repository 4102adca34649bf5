/** The files that tests start as programs: the sources, or the bundles of `bundle-programs.ts`. */
import { join } from "node:path";
import { type BundledImage, bundledPrograms } from "../../scripts/bundled-programs.ts";

/** Names the environment variable with the folder of the bundles. */
export const bundlesVariable = "GATEWAY_PROXY_TEST_BUNDLES";

/**
 * Names Node's environment variable with the folder of compiled code, which a program's own environment needs as well.
 */
export const compiledVariable = "NODE_COMPILE_CACHE";

export function programFile<Image extends BundledImage>(
  image: Image,
  program: keyof (typeof bundledPrograms)[Image] & string,
): string {
  const folder = process.env[bundlesVariable];
  const sources: Readonly<Record<string, string>> = bundledPrograms[image];
  return folder === undefined
    ? join(import.meta.dirname, "../..", sources[program] ?? "")
    : join(folder, image, `${program}.js`);
}
