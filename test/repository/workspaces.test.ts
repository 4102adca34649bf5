/**
 * The boundaries of the workspaces: each exports only modules that others use, and depends only on packages that it
 * imports.
 */
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

interface Manifest {
  readonly name: string;
  readonly workspaces?: readonly string[];
  readonly exports?: Readonly<Record<string, string>>;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
  readonly bin?: string | Readonly<Record<string, string>>;
}

const repository = join(import.meta.dirname, "../..");
const readText = (path: string): string => readFileSync(join(repository, path), "utf8");
// The files that npm reads have this shape.
const readManifest = (folder: string): Manifest => JSON.parse(readText(join(folder, "package.json"))) as Manifest;

const tracked = execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard"], {
  cwd: repository,
  encoding: "utf8",
})
  .split("\n")
  .filter((path) => /\.(?:m?[jt]sx?|json|sh|md)$|^\.ci\/run$/.test(path) && existsSync(join(repository, path)))
  .filter((path) => path !== "package-lock.json" && !path.endsWith("/package.json"));
const texts = new Map(tracked.map((path) => [path, readText(path)]));
const folders = readManifest(".").workspaces ?? [];

/** Whether a file imports a package or a module of it, or names it as a path. */
function names(text: string, specifier: string): boolean {
  return [`"${specifier}"`, `"${specifier}/`, `node_modules/${specifier}/`].some((each) => text.includes(each));
}

function isProduct(path: string): boolean {
  return !/\.test\.tsx?$|\/testing\//.test(path);
}

test.each(folders)("%s exports only modules that others import", (folder) => {
  const { name, exports = {} } = readManifest(folder);
  expect(Object.keys(exports).filter((key) => key.includes("*"))).toEqual([]);
  const unused = Object.keys(exports).filter((key) => {
    const specifier = `"${name}${key.slice(1)}"`;
    return ![...texts].some(([path, text]) => !path.startsWith(`${folder}/src/`) && text.includes(specifier));
  });
  expect(unused).toEqual([]);
});

test.each(folders)("%s imports each of its dependencies", (folder) => {
  const { dependencies = {}, devDependencies = {} } = readManifest(folder);
  const isImported = (dependency: string, accepts: (path: string) => boolean): boolean =>
    [...texts].some(([path, text]) => accepts(path) && names(text, dependency));
  const isOwn = (path: string): boolean => path.startsWith(`${folder}/`) && isProduct(path);
  expect({
    dependencies: Object.keys(dependencies).filter((each) => !isImported(each, isOwn)),
    // Development dependencies of a workspace build its image; scripts/ may import them.
    devDependencies: Object.keys(devDependencies).filter((each) => !isImported(each, () => true)),
  }).toEqual({ dependencies: [], devDependencies: [] });
});

test("each development dependency of the repository is imported, or a script runs it", () => {
  const { devDependencies = {}, scripts } = JSON.parse(readText("package.json")) as Manifest & {
    readonly scripts: Readonly<Record<string, string>>;
  };
  const commands = [
    ...Object.values(scripts),
    ...[...texts].flatMap(([path, text]) => (/\.sh$|^\.ci\/run$/.test(path) ? [text] : [])),
  ].join("\n");
  const isUsed = (dependency: string): boolean => {
    const { bin = {} } = readManifest(join("node_modules", dependency));
    const programs = typeof bin === "string" ? [dependency.replace(/^@[^/]+\//, "")] : Object.keys(bin);
    return (
      [...texts.values()].some((text) => names(text, dependency)) ||
      [...programs, `node_modules/${dependency}/`].some((each) => commands.includes(each))
    );
  };
  // Types of Node itself, and of a package that is imported.
  const unused = Object.keys(devDependencies).filter((each) => !isUsed(each.replace(/^@types\/(?!node$)/, "")));
  expect(unused.filter((each) => each !== "@types/node")).toEqual([]);
});
