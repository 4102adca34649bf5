import { execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { bomOf, imageWorkspaces, type Bom, type Image, type LockFile } from "../../scripts/sbom.ts";

const repository = join(import.meta.dirname, "../..");
// Written by npm.
const lock = JSON.parse(readFileSync(join(repository, "package-lock.json"), "utf8")) as LockFile;

const libc = ["Package: libc6", "Status: install ok installed", "Architecture: amd64", "Version: 2.36-9+deb12u14"];
const platform = { node: "26.10.0", debianPackages: [libc.join("\n")] };
const images = Object.keys(imageWorkspaces) as Image[];
/** From npm 11, which the images have, a dry run leaves out the same packages as an installation. */
const npmMajor = Number.parseInt(execFileSync("npm", ["--version"], { encoding: "utf8" }), 10);

/**
 * The packages that npm would install for some workspaces into an empty folder, as `name@version`. Uses no registry.
 */
function installedBy(workspaces: readonly string[]): readonly string[] {
  const folder = mkdtempSync(join(tmpdir(), "sbom-test-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const manifests = Object.keys(lock.packages).filter((path) => !path.includes("node_modules/"));
  for (const file of ["package-lock.json", ...manifests.map((path) => join(path, "package.json"))]) {
    mkdirSync(join(folder, dirname(file)), { recursive: true });
    copyFileSync(join(repository, file), join(folder, file));
  }
  const options = ["--dry-run", "--offline", "--ignore-scripts", "--omit=dev", "--omit=optional", "--loglevel=error"];
  const output = execFileSync("npm", ["ci", ...options, ...workspaces.flatMap((path) => ["--workspace", path])], {
    cwd: folder,
    encoding: "utf8",
  });
  const added = [...output.matchAll(/^add (\S+) (\S+)$/gm)].map(([, name, version]) => `${name}@${version}`);
  return [...new Set(added)].filter((each) => !each.startsWith("@gatewayproxy/")).sort();
}

/** The packages of npm's registry in a bill, as `name@version`. */
function packagesIn(bom: Bom): readonly string[] {
  const published = bom.components.filter(({ purl }) => purl?.startsWith("pkg:npm/") === true);
  return published.map(({ name, version }) => `${name}@${version}`).sort();
}

describe.each(images)("the bill of materials of %s", (image) => {
  const bom = bomOf(image, lock, platform);

  test.skipIf(npmMajor < 11)("lists exactly the packages that npm installs for the image", () => {
    expect(packagesIn(bom)).toEqual(installedBy(imageWorkspaces[image]));
  });

  test("has the licence, the digest and the address of every package", () => {
    for (const component of bom.components.filter(({ purl }) => purl?.startsWith("pkg:npm/") === true)) {
      expect(component).toMatchObject({
        licenses: [{ expression: expect.stringMatching(/^\S/) as string }],
        hashes: [{ alg: "SHA-512", content: expect.stringMatching(/^[0-9a-f]{128}$/) as string }],
        purl: `pkg:npm/${component.name.replace("@", "%40")}@${component.version}`,
      });
    }
  });

  test("names every component once, and no dependency that it does not list", () => {
    const refs = bom.components.map((component) => component["bom-ref"]);
    expect(new Set(refs).size).toBe(refs.length);
    const known = new Set([...refs, bom.metadata.component["bom-ref"]]);
    const named = bom.dependencies.flatMap(({ ref, dependsOn }) => [ref, ...dependsOn]);
    expect(named.filter((ref) => !known.has(ref))).toEqual([]);
    // Every component except Debian's packages lists its dependencies, even if it has none.
    const subjects = new Set(bom.dependencies.map(({ ref }) => ref));
    expect([...known].filter((ref) => !subjects.has(ref))).toEqual([
      "pkg:deb/debian/libc6@2.36-9%2Bdeb12u14?arch=amd64",
    ]);
  });

  test("has Node and the library that Node is linked with", () => {
    expect(bom.components).toContainEqual(expect.objectContaining({ name: "node", version: "26.10.0" }));
    expect(bom.components).toContainEqual(expect.objectContaining({ name: "libc6", version: "2.36-9+deb12u14" }));
  });

  test("is the same for the same input, and differs for another", () => {
    expect(bomOf(image, lock, platform)).toEqual(bom);
    expect(bom.serialNumber).toMatch(/^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-a[0-9a-f]{3}-[0-9a-f]{12}$/);
    expect(bomOf(image, lock, { ...platform, node: "26.10.1" }).serialNumber).not.toBe(bom.serialNumber);
    expect(bom.metadata).not.toHaveProperty("timestamp");
    expect(bomOf(image, lock, { ...platform, timestamp: 0 }).metadata.timestamp).toBe("1970-01-01T00:00:00.000Z");
  });
});

test("a package is the one that Node finds: the nearest, not the first of its name", () => {
  const mock: LockFile = {
    packages: {
      "": { version: "1.0.0" },
      "examples/mock-llm": { name: "mock", version: "1.0.0", dependencies: { a: "1", b: "1" } },
      "node_modules/a": { version: "1.0.0", dependencies: { b: "2" }, peerDependencies: { c: "1", d: "1" } },
      "node_modules/a/node_modules/b": { version: "2.0.0" },
      "node_modules/b": { version: "1.0.0" },
      "node_modules/c": { version: "1.0.0" },
      "node_modules/e": { version: "1.0.0" },
      "examples/mock-llm/node_modules/b": { version: "3.0.0" },
    },
  };
  const packages = { ...mock.packages };
  const optional = { ...packages["node_modules/a"], peerDependenciesMeta: { d: { optional: true } } };
  const bom = bomOf("mock-llm", { packages: { ...packages, "node_modules/a": optional } }, platform);
  expect(packagesIn(bom)).toEqual(["a@1.0.0", "b@2.0.0", "b@3.0.0", "c@1.0.0"]);
  expect(() => bomOf("mock-llm", mock, platform)).toThrow(
    "package-lock.json has no d, which node_modules/a depends on",
  );
});
