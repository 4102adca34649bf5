import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { bundledPrograms } from "../../scripts/bundled-programs.ts";
import { imageWorkspaces } from "../../scripts/sbom.ts";

const repository = join(import.meta.dirname, "../..");
const dockerfile = readFileSync(join(repository, "Dockerfile"), "utf8");
const ignored = readFileSync(join(repository, ".dockerignore"), "utf8").split("\n");

interface Manifest {
  readonly workspaces: readonly string[];
}

// Written by npm, and validated by its own checks.
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

test("the stage of the dependencies has the manifest of every workspace", () => {
  const copied = stage("dependencies").flatMap((line) => /^COPY (\S+)\/package\.json /.exec(line)?.[1] ?? []);
  expect(copied.sort()).toEqual([...manifest.workspaces].sort());
});

test("the context contains every workspace", () => {
  const folders = new Set(manifest.workspaces.map((path) => path.split("/")[0] ?? ""));
  expect([...folders].filter((folder) => !ignored.includes(`!${folder}`))).toEqual([]);
});

/** A workspace and all that it imports, directly and indirectly. */
function closureOf(workspace: string): readonly string[] {
  const needed = new Set<string>([workspace]);
  for (const each of needed) for (const name of importsOf(each)) needed.add(name);
  return [...needed];
}

describe.each(["proxy", "ratelimit-service"] as const)("the bundles of the image %s", (image) => {
  test("are built in a stage with all their imports", () => {
    const lines = stage("bundles").join("\n");
    const copied = Array.from(lines.matchAll(/^COPY (\S+)\/ \1\/$/gm), ([, name]) => name);
    const installed = Array.from(lines.matchAll(/--workspace (\S+)/g), ([, name]) => name);
    const needed = closureOf(image);
    expect(needed.filter((name) => !copied.includes(name))).toEqual([]);
    expect(needed.filter((name) => !installed.includes(name))).toEqual([]);
    expect(lines).toContain("RUN node scripts/bundle.ts --out /images");
  });

  test("are the image's programs, of which it starts one by default", () => {
    expect(stage(image)).toContain(`COPY --from=bundles /images/${image}/ ./`);
    const [, started = ""] = /^CMD \["(.*)\.js"\]$/m.exec(stage(image).join("\n")) ?? [];
    expect(Object.keys(bundledPrograms[image])).toContain(started);
  });

  test("are covered by its bill of materials", () => {
    // The proxy serves the page, whose bundle is a file of it.
    const page = image === "proxy" ? ["admin-ui"] : [];
    expect([...imageWorkspaces[image]].sort()).toEqual([...closureOf(image), ...page].sort());
  });

  test("are built by scripts that the context contains", () => {
    const scripts = stage("bundles").flatMap(
      (line) => /^COPY (scripts\/.*) scripts\/$/.exec(line)?.[1]?.split(" ") ?? [],
    );
    expect(scripts).toContain("scripts/bundle.ts");
    const imported = scripts.flatMap((script) =>
      Array.from(
        readFileSync(join(repository, script), "utf8").matchAll(/from "\.\/([\w-]+\.ts)"/g),
        ([, name = ""]) => `scripts/${name}`,
      ),
    );
    expect(imported.filter((script) => !scripts.includes(script))).toEqual([]);
    expect(scripts.filter((script) => !ignored.includes(`!${script}`))).toEqual([]);
  });
});

test("the image mock-llm contains its sources", () => {
  expect(stage("mock-llm")).toContain("COPY examples/mock-llm/ examples/mock-llm/");
  expect(imageWorkspaces["mock-llm"]).toEqual(["examples/mock-llm"]);
});

describe.each(["proxy", "ratelimit-service", "mock-llm"] as const)("the image %s", (image) => {
  test("has its bill of materials", () => {
    expect(stage(image)).toContain(`COPY --from=sbom /sbom/${image}.cdx.json /usr/share/sbom/`);
  });

  test("is built on the image without a shell, and runs as an unprivileged user", () => {
    expect(stage(image)[0]).toBe(`FROM base AS ${image}`);
    expect(stage("base")[0]).toBe("FROM scratch AS base");
    expect(stage("base")).toContain("USER 65532:65532");
  });
});
