import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { imageWorkspaces } from "../../scripts/sbom.ts";

const repository = join(import.meta.dirname, "../..");
const dockerfile = readFileSync(join(repository, "Dockerfile"), "utf8");
const ignored = readFileSync(join(repository, ".dockerignore"), "utf8").split("\n");

interface Manifest {
  readonly workspaces: readonly string[];
}

// Written by npm and held by its own checks.
const manifest = JSON.parse(readFileSync(join(repository, "package.json"), "utf8")) as Manifest;

/** The lines of a stage, from `FROM … AS name` to the next one. */
function stage(name: string): readonly string[] {
  const lines = dockerfile.split("\n");
  const start = lines.findIndex((line) => line.startsWith("FROM ") && line.endsWith(` AS ${name}`));
  const length = lines.slice(start + 1).findIndex((line) => line.startsWith("FROM "));
  return lines.slice(start, length === -1 ? undefined : start + 1 + length);
}

/** Workspaces that the sources of one import by name, tests apart. */
function importsOf(workspace: string): readonly string[] {
  const files = globSync(join(repository, workspace, "src/**/*.ts")).filter(
    (path) => !/\.test\.ts$|\/testing\//.test(path),
  );
  const names = files.flatMap((path) =>
    [...readFileSync(path, "utf8").matchAll(/from "@gatewayproxy\/([\w-]+)/g)].flatMap((match) => match[1] ?? []),
  );
  return [...new Set(names)];
}

test("npm finds the manifest of every workspace where the dependencies are installed", () => {
  const copied = stage("dependencies").flatMap((line) => /^COPY (\S+)\/package\.json /.exec(line)?.[1] ?? []);
  expect(copied.sort()).toEqual([...manifest.workspaces].sort());
});

test("the context holds every workspace", () => {
  const folders = new Set(manifest.workspaces.map((path) => path.split("/")[0] ?? ""));
  expect([...folders].filter((folder) => !ignored.includes(`!${folder}`))).toEqual([]);
});

describe.each([
  { image: "proxy", workspace: "proxy" },
  { image: "ratelimit-service", workspace: "ratelimit-service" },
  { image: "mock-llm", workspace: "examples/mock-llm" },
] as const)("the image $image", ({ image, workspace }) => {
  test("holds its program and every workspace that this imports, and those theirs", () => {
    const needed = new Set<string>([workspace]);
    for (const each of needed) for (const name of importsOf(each)) needed.add(name);
    const held = stage(image).flatMap((line) => /^COPY (\S+)\/ \1\/$/.exec(line)?.[1] ?? []);
    expect([...needed].filter((name) => !held.includes(name))).toEqual([]);
  });

  test("has its bill of materials, which covers every workspace in the image", () => {
    expect(stage(image)).toContain(`COPY --from=sbom /sbom/${image}.cdx.json /usr/share/sbom/`);
    const held = stage(image).flatMap(
      (line) => /^COPY (?:--from=\S+ \/app\/)?([\w-]+(?:\/mock-llm)?)\//.exec(line)?.[1] ?? [],
    );
    const own = held.filter((folder) => folder !== "node_modules");
    expect([...imageWorkspaces[image]].sort()).toEqual(own.sort());
  });

  test("is made of the image without a shell, and runs as nobody", () => {
    expect(stage(image)[0]).toBe(`FROM base AS ${image}`);
    expect(stage("base")[0]).toBe("FROM scratch AS base");
    expect(stage("base")).toContain("USER 65532:65532");
  });
});
