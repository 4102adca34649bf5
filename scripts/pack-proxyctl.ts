/**
 * `npm run pack:proxyctl`: writes the files with which users install proxyctl to proxyctl/dist.
 *
 *   gatewayproxy-proxyctl-VERSION.tgz  for `npm install -g FILE`, with all dependencies, without requests to a registry
 *   proxyctl                           one executable file for this platform, with Node in it
 *   SHA256SUMS                         of both
 *
 * `--out DIR` writes to another folder, `--only tarball` or `--only executable` makes one of them.
 */
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { build, type OutputChunk } from "rolldown";
import manifest from "../proxyctl/package.json" with { type: "json" };
import { licensesOf } from "./third-party-licenses.ts";

const root = join(import.meta.dirname, "..");
const source = join(root, "proxyctl/src");
/** The same as in src/bin.ts. */
const oldestNode = "22.19";

const { values } = parseArgs({ options: { out: { type: "string" }, only: { type: "string" } } });
const out = resolve(process.env["INIT_CWD"] ?? ".", values.out ?? join(root, "proxyctl/dist"));
const work = await mkdtemp(join(tmpdir(), "pack-proxyctl-"));
try {
  await mkdir(out, { recursive: true });
  const made = [
    ...(values.only === "executable" ? [] : [await packTarball()]),
    ...(values.only === "tarball" ? [] : [await buildExecutable()]),
  ];
  const sums = await Promise.all(made.map(async (file) => `${await sha256(join(out, file))}  ${file}\n`));
  await writeFile(join(out, "SHA256SUMS"), sums.join(""));
  for (const file of made) console.log(join(out, file));
} finally {
  await rm(work, { recursive: true });
}

/** Bundles in chunks, so that a command loads only the code that it needs. */
async function bundle(entry: string, target: string, dir: string): Promise<readonly OutputChunk[]> {
  const { output } = await build({
    input: { proxyctl: join(source, entry) },
    platform: "node",
    transform: { target },
    output: { dir, format: "esm", minify: true, chunkFileNames: "[name]-[hash].js" },
  });
  return output.filter((each): each is OutputChunk => each.type === "chunk");
}

async function packTarball(): Promise<string> {
  const folder = join(work, "package");
  // An older Node must be able to run the program as far as its error message about the version.
  const chunks = await bundle("bin.ts", "node20", join(folder, "dist"));
  const { name, version, type } = manifest;
  const packed = {
    name,
    version,
    type,
    description: "Inspects gateway proxies: their configuration, the path of a request, the counters of limits",
    license: "Apache-2.0",
    bin: { proxyctl: "dist/proxyctl.js" },
    files: ["dist"],
    engines: { node: `>=${oldestNode}` },
    // Prevents a publication by mistake. Users get the package as a file.
    private: true,
  };
  await writeFile(join(folder, "package.json"), `${JSON.stringify(packed, undefined, 2)}\n`);
  await writeFile(join(folder, "README.md"), readme(version));
  await writeFile(join(folder, "dist/THIRD-PARTY-LICENSES.txt"), await licensesOf(chunks));
  const written = execFileSync("npm", ["pack", "--silent", "--pack-destination", out], {
    cwd: folder,
    encoding: "utf8",
  });
  return written.trim();
}

/** Builds the executable. The chunks are assets, which src/executable.ts loads. */
async function buildExecutable(): Promise<string> {
  const modules = join(work, "modules");
  const chunks = await bundle("main.ts", "esnext", modules);
  const main = join(work, "executable.cjs");
  await build({
    input: join(source, "executable.ts"),
    platform: "node",
    output: { file: main, format: "cjs", minify: true },
  });
  const file = process.platform === "win32" ? "proxyctl.exe" : "proxyctl";
  const config = join(work, "sea.json");
  const settings = {
    main,
    output: join(out, file),
    assets: Object.fromEntries(chunks.map(({ fileName }) => [fileName, join(modules, fileName)])),
    disableExperimentalSEAWarning: true,
    useCodeCache: true,
    // The executable ignores variables for other installations of Node.
    execArgvExtension: "none",
  };
  await writeFile(config, JSON.stringify(settings));
  execFileSync(process.execPath, ["--build-sea", config], { stdio: ["ignore", "ignore", "inherit"] });
  await chmod(join(out, file), 0o755);
  return file;
}

function readme(version: string): string {
  return `# proxyctl ${version}

Inspects running gateway proxies. \`proxyctl --help\` lists the commands; \`proxyctl completion bash\` prints the completion
for a shell.

Install it from this file, \`npm install -g ./gatewayproxy-proxyctl-${version}.tgz\`. It is not on the npm registry: \`npx
proxyctl\` would fetch the package of another project.
`;
}

async function sha256(file: string): Promise<string> {
  return createHash("sha256")
    .update(await readFile(file))
    .digest("hex");
}
