import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";

/** The parts of an npm lock file, version 3, that this test reads. */
interface LockFile {
  readonly packages: Readonly<Record<string, LockedPackage>>;
}

interface LockedPackage {
  readonly version?: string;
  readonly integrity?: string;
  readonly resolved?: string;
  readonly link?: boolean;
  readonly bin?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

const read = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), "utf8");
// Written by npm.
const { packages } = JSON.parse(read("package-lock.json")) as LockFile;
/** Every package that npm downloads: neither the workspaces nor the links to them. */
const fetched = Object.entries(packages).filter(([path, each]) => path.includes("node_modules/") && each.link !== true);

function pathsWhere(isWrong: (each: LockedPackage) => boolean): readonly string[] {
  return fetched.filter(([, each]) => isWrong(each)).map(([path]) => path);
}

describe("the lock file", () => {
  test("lists every platform of a package that ships one binary per platform", () => {
    // A lock that was written while the registry could not serve some of them lacks their entries, and `npm ci` then
    // rejects it on every machine.
    const listed = new Set(Object.keys(packages).map((path) => path.slice(path.lastIndexOf("node_modules/") + 13)));
    const optional = Object.values(packages).flatMap((each) => Object.keys(each.optionalDependencies ?? {}));
    expect(optional.filter((name) => !listed.has(name))).toEqual([]);
  });

  test("has the SHA-512 of every package, so that npm accepts no other bytes", () => {
    expect(fetched.length).toBeGreaterThan(100);
    expect(pathsWhere(({ integrity = "" }) => !/^sha512-[A-Za-z0-9+/]{86}==$/.test(integrity))).toEqual([]);
  });

  test("has an exact version of every package", () => {
    expect(pathsWhere(({ version = "" }) => !/^\d+\.\d+\.\d+(?:-[\w.-]+)?$/.test(version))).toEqual([]);
  });

  test("has one package that provides the command node, so that npm 10 links it", () => {
    // npm 10 links the commands of all packages, and then removes those of the packages of other platforms. `npm
    // install` writes "bin" back when it updates Node: take it out again.
    const providers = Object.entries(packages).filter(([, { bin }]) => bin?.["node"] !== undefined);
    expect(providers.map(([path]) => path)).toEqual(["node"]);
  });

  test("names no address but that of the public registry", () => {
    // Without an address npm uses the configured registry, and the digest is validated there too.
    const isElsewhere = ({ resolved = "https://registry.npmjs.org/" }: LockedPackage): boolean =>
      !resolved.startsWith("https://registry.npmjs.org/");
    expect(pathsWhere(isElsewhere)).toEqual([]);
  });
});

test("no dependency runs an install script", () => {
  expect(read(".npmrc").split("\n")).toContain("ignore-scripts=true");
});

test("the project's manifests require exact versions", () => {
  const manifests = Object.keys(packages).filter((path) => !path.includes("node_modules/"));
  const inexact = manifests.flatMap((path) => {
    // Written by this project and by npm.
    const manifest = JSON.parse(read(path === "" ? "package.json" : `${path}/package.json`)) as Record<string, unknown>;
    const required = ["dependencies", "devDependencies", "optionalDependencies"].flatMap((kind) =>
      Object.entries((manifest[kind] ?? {}) as Record<string, string>),
    );
    return required
      .filter(([, version]) => !/^(npm:[@\w/-]+@)?\d+\.\d+\.\d+$/.test(version))
      .map(([name]) => `${path}: ${name}`);
  });
  expect(inexact).toEqual([]);
});
