/**
 * `npm run bundle`: writes the programs of the images to dist/IMAGE. Each image has its programs in one folder, as ES
 * modules that share chunks, with the files that they read and the licences of the bundled packages.
 *
 * usage: node scripts/bundle.ts [--out FOLDER] [IMAGE ...]
 *   writes FOLDER/IMAGE for each IMAGE: proxy, ratelimit-service   (default: both, to dist)
 */
import { existsSync } from "node:fs";
import { chmod, cp, mkdir, rm, writeFile } from "node:fs/promises";
import { isBuiltin } from "node:module";
import { dirname, join, relative, resolve, sep } from "node:path";
import { parseArgs } from "node:util";
import { build, type OutputChunk, type Plugin } from "rolldown";
import { builtinsByName, builtinsOnUse } from "./bundle-builtins.ts";
import { usedRedisClient } from "./bundle-redis-client.ts";
import { type BundledImage, bundledPrograms } from "./bundled-programs.ts";
import { licensesOf } from "./third-party-licenses.ts";

const root = join(import.meta.dirname, "..");

// The keys of the table.
const bundledImages = Object.keys(bundledPrograms) as BundledImage[];

/** Writes the programs of every image, each to a folder with its name in `folder`. */
export async function bundleAll(folder: string): Promise<void> {
  await Promise.all(bundledImages.map((image) => bundle(image, join(folder, image))));
}

/** The proxy signs and hashes for many requests. */
const builtinPlugins: Readonly<Record<BundledImage, Plugin>> = {
  proxy: builtinsByName,
  "ratelimit-service": builtinsOnUse,
};

/** Writes the programs of an image and the files that they read to `folder`, which is emptied first. */
export async function bundle(image: BundledImage, folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  const programs: Readonly<Record<string, string>> = bundledPrograms[image];
  const files = new Set<string>();
  const { output } = await build({
    input: Object.fromEntries(Object.entries(programs).map(([name, entry]) => [name, join(root, entry)])),
    platform: "node",
    transform: { target: "esnext" },
    onLog(level, log, report) {
      // By default such an import fails only at the start of the program, in an image without node_modules.
      if (log.code === "UNRESOLVED_IMPORT") throw new Error(log.message);
      report(level, log);
    },
    plugins: [filesBeside(programs, files), requiredPackages, usedRedisClient, builtinPlugins[image]],
    // Keeps the names of functions and line breaks, with comments that name the source files, for readable stack
    // traces. V8 keeps the text of all loaded code, with two bytes per character if one is not in Latin-1.
    output: { dir: folder, format: "esm", chunkFileNames: "[name]-[hash].js", comments: false, charset: "ascii" },
  });
  const chunks = output.filter((each): each is OutputChunk => each.type === "chunk");
  // All files and folders to which the sources refer are beside the chunks, by their path in the repository.
  for (const file of files) {
    if (existsSync(join(root, file))) await cp(join(root, file), join(folder, file), { recursive: true });
  }
  const executable = chunks.filter(({ isEntry, code }) => isEntry && code.startsWith("#!"));
  await Promise.all(executable.map(({ fileName }) => chmod(join(folder, fileName), 0o755)));
  await writeFile(join(folder, "package.json"), `${JSON.stringify({ private: true, type: "module" })}\n`);
  await writeFile(join(folder, "THIRD-PARTY-LICENSES.txt"), await licensesOf(chunks));
}

const relativeUrl = /new URL\("([^"]+)", import\.meta\.url\)/g;

/**
 * Replaces file paths in the sources, which are relative to the source file. In the bundle, a worker is the file of its
 * entry, and any other file is below the folder of the chunks, by its path in the repository. Other uses of
 * `import.meta` in the sources are errors.
 *
 * @param files receives the paths of needed files.
 */
function filesBeside(programs: Readonly<Record<string, string>>, files: Set<string>): Plugin {
  return {
    name: "files-beside",
    transform(code, id) {
      if (!id.startsWith(root) || id.includes(`${sep}node_modules${sep}`) || !code.includes("import.meta")) return;
      const replaced = code.replace(relativeUrl, (_, path: string): string => {
        const file = relative(root, resolve(dirname(id), path));
        const [program] = Object.entries(programs).find(([, entry]) => entry === file) ?? [];
        if (program === undefined) files.add(file);
        return `new URL("./${program === undefined ? file : `${program}.js`}", import.meta["url"])`;
      });
      if (/import\.meta\./.test(replaced)) {
        throw new Error(`${relative(root, id)}: only new URL("…", import.meta.url) can be bundled`);
      }
      return { code: replaced };
    },
  };
}

/** A call by which an ES module that rolldown has written loads a module at run time. */
const requireCall = /\b__require\("([^"]+)"\)/g;

/**
 * Replaces `__require("package")` by an import. Packages that were bundled with rolldown have such calls, which it does
 * not follow a second time. At run time they would fail, since an image has no node_modules.
 */
const requiredPackages: Plugin = {
  name: "required-packages",
  transform(code) {
    const packages = new Set([...code.matchAll(requireCall)].map(([, name = ""]) => name));
    const variables = new Map(
      [...packages].filter((name) => !isBuiltin(name)).map((name, at) => [name, `required${at}`]),
    );
    if (variables.size === 0) return;
    const imports = [...variables].map(([name, variable]) => `import ${variable} from "${name}";\n`);
    return { code: imports.join("") + code.replace(requireCall, (call, name: string) => variables.get(name) ?? call) };
  },
};

if (import.meta.main) {
  const { values, positionals } = parseArgs({
    options: { out: { type: "string", default: join(root, "dist") } },
    allowPositionals: true,
  });
  const unknown = positionals.find((name) => !bundledImages.some((image) => image === name));
  if (unknown !== undefined) throw new Error(`no image ${unknown}; accepted: ${bundledImages.join(", ")}`);
  for (const image of bundledImages.filter((each) => positionals.length === 0 || positionals.includes(each))) {
    const folder = resolve(process.env["INIT_CWD"] ?? ".", values.out, image);
    await bundle(image, folder);
    console.log(folder);
  }
}
