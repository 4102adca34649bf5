/** The parts of a public repository beside its code, and that they agree with the rest. */
import { execFileSync } from "node:child_process";
import { existsSync, globSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { imageWorkspaces } from "../../scripts/sbom.ts";
import { describeWith } from "../support/describe-with.ts";

const repository = join(import.meta.dirname, "../..");
const read = (path: string): string => readFileSync(join(repository, path), "utf8");
const tracked = execFileSync("git", ["ls-files"], { cwd: repository, encoding: "utf8" }).split("\n");

interface Manifest {
  readonly license?: string;
  readonly version: string;
  readonly scripts?: Readonly<Record<string, string>>;
  readonly workspaces?: readonly string[];
}

// Written by npm, and validated by its own checks.
const manifestOf = (folder: string): Manifest => JSON.parse(read(join(folder, "package.json"))) as Manifest;
const manifest = manifestOf(".");

test("the license of package.json is the license of the repository", () => {
  expect(manifest.license).toBe("Apache-2.0");
  expect(read("LICENSE")).toMatch(/^\s*Apache License\n\s*Version 2\.0, January 2004/);
  expect(read("NOTICE")).toContain("Apache License, Version 2.0");
});

test("all workspaces have the version of the repository", () => {
  const others = (manifest.workspaces ?? []).filter((folder) => manifestOf(folder).version !== manifest.version);
  expect(others).toEqual([]);
});

test("docs/README.md links to every page", () => {
  const index = links("docs/README.md");
  const pages = globSync("docs/*.md", { cwd: repository }).filter((page) => page !== "docs/README.md");
  expect(pages.filter((page) => !index.includes(page))).toEqual([]);
});

test.each(tracked.filter((path) => path.endsWith(".md")))("the files of links in %s exist", (page) => {
  expect(links(page).filter((target) => !existsSync(join(repository, target)))).toEqual([]);
});

/** Names with the form of paths. */
const names = new Set(["http/1.1", "http/protobuf"]);
const folders = new Set(tracked.flatMap((path) => parentsOf(path)));

test.each(tracked.filter((path) => path.endsWith(".md") && !isHistory(path)))("the paths in %s exist", (page) => {
  const code = [...read(page).matchAll(/`([^`\n]+)`/g)].map(([, text = ""]) => text);
  const paths = code.flatMap((text) => text.match(/(?<![\w./:-])[\w.-]+\/[\w./-]+\w/g) ?? []);
  const missing = paths.filter((path) => {
    // A path in a page of a folder may be relative to that folder.
    const isPath = folders.has(path.split("/")[0] ?? "") && !names.has(path) && !isBuilt(path);
    return isPath && !existsSync(join(repository, path)) && !existsSync(join(repository, dirname(page), path));
  });
  expect(missing).toEqual([]);
});

test.each(tracked.filter((path) => path.endsWith(".md") && !isHistory(path)))("the npm scripts in %s exist", (page) => {
  const { scripts } = JSON.parse(read("package.json")) as { scripts: Readonly<Record<string, string>> };
  const names = [...read(page).matchAll(/npm run (?:--silent )?([\w:-]+)/g)].map(([, name = ""]) => name);
  expect(names.filter((name) => !Object.hasOwn(scripts, name))).toEqual([]);
});

/** Whether a page describes the repository of an earlier time. */
function isHistory(page: string): boolean {
  return page === "CHANGELOG.md" || page.startsWith("docs/adr/");
}

/** Whether a path is an output of a build. */
function isBuilt(path: string): boolean {
  return path.split("/").includes("dist");
}

/** The folders that contain a path. */
function parentsOf(path: string): readonly string[] {
  const parent = dirname(path);
  return parent === "." ? [] : [parent, ...parentsOf(parent)];
}

/** Files of the repository that a page links to. */
function links(page: string): readonly string[] {
  const text = read(page).replaceAll(/^```[\s\S]*?^```/gm, "");
  return [...text.matchAll(/\]\(([^)#\s]+)(?:#[^)]*)?\)/g)]
    .map(([, target = ""]) => target)
    .filter((target) => !/^[a-z]+:/.test(target))
    .map((target) => relative(repository, join(repository, dirname(page), target)));
}

describe("the workflows", () => {
  const workflows = globSync(".github/workflows/*.yml", { cwd: repository });
  const lines = workflows.flatMap((path) => read(path).split("\n"));

  test("refer to actions by commit, with the version beside it", () => {
    const uses = lines.filter((line) => line.includes("uses:"));
    expect(uses.length).toBeGreaterThan(0);
    expect(uses.filter((line) => !/uses: [\w.-]+\/[\w.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/.test(line))).toEqual([]);
  });

  test("grant tokens read access only, unless a job needs more", () => {
    const granted = workflows.map((path) => (parse(read(path)) as { permissions?: object }).permissions);
    for (const permissions of granted) expect([{}, { contents: "read" }]).toContainEqual(permissions);
  });

  test("run the commands of .ci/run", () => {
    const commands = [
      ...read(".ci/run").matchAll(/^ *step (?:env \S*=?.*? )?((?:npm (?:run|exec)|scripts\/|test\/)[^\n]*)/gm),
    ]
      .map(([, command = ""]) => command.replace(/^(?:-u \S+ |\w+=\S+ )*/, ""))
      // Preparations and measurements for a machine without registries.
      .filter((command) => !/rig\.sh|npm run bench|build\.sh/.test(command));
    expect(commands.length).toBeGreaterThan(5);
    expect(commands.filter((each) => !lines.some((line) => line.endsWith(`run: ${each}`)))).toEqual([]);
  });

  test("run scripts that exist", () => {
    const runs = lines.flatMap((line) => /\brun: (.*)$/.exec(line)?.[1] ?? []);
    const missing = runs.filter((run) => {
      const script = /^npm (?:run )?(?:--silent )?([\w:-]+)/.exec(run)?.[1];
      if (run.startsWith("npm run") && script !== undefined) return manifest.scripts?.[script] === undefined;
      return /^(?:scripts|test)\//.test(run) && !existsSync(join(repository, run.split(" ")[0] ?? ""));
    });
    expect(missing).toEqual([]);
  });
});

describeWith(["actionlint"], "the workflows", ({ actionlint }) => {
  test("pass actionlint", () => {
    execFileSync(actionlint, globSync(".github/workflows/*.yml", { cwd: repository }), { cwd: repository });
  });
});

describe("scripts/release.sh", () => {
  const release = (...args: readonly string[]): string =>
    execFileSync("scripts/release.sh", args, { cwd: repository, encoding: "utf8", stdio: "pipe" });

  test("publishes each image for two platforms, with signature, provenance and bill of materials", () => {
    const commands = release("--dry-run", manifest.version);
    for (const image of Object.keys(imageWorkspaces)) {
      expect(commands).toContain(`--target ${image} --platform linux/amd64,linux/arm64 --provenance mode=max`);
      expect(commands).toContain(`cosign attest --yes --type cyclonedx --predicate sbom/${image}.cdx.json`);
    }
  });

  test("publishes the images that the chart installs", () => {
    const { image } = parse(read("deploy/helm/gateway-proxy/values.yaml")) as { image: { registry: string } };
    expect(release("--dry-run", manifest.version)).toContain(
      `--tag ${image.registry}/gateway-proxy:${manifest.version} `,
    );
  });

  test.each([
    [["--dry-run", "99.0.0"], "package.json has version"],
    [["--dry-run", "latest"], "'latest' is not a version such as 1.2.3"],
    [[], "usage:"],
  ])("with %j ends with an error", (args, message) => {
    expect(() => release(...args)).toThrow(message);
  });
});
