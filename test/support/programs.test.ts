import { spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { findProgram, requireProgram, testPrograms } from "./programs.ts";

let home: string;

beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "programs-test-"));
});
afterEach(() => rmSync(home, { recursive: true }));

function createFile(folder: string, name: string, mode = 0o755): string {
  mkdirSync(join(home, folder), { recursive: true });
  const path = join(home, folder, name);
  writeFileSync(path, "");
  chmodSync(path, mode);
  return path;
}

describe("findProgram", () => {
  test("searches PATH before the folder of the install script", () => {
    const onPath = createFile("bin", "grpcurl");
    createFile("cache/gatewayproxy/bin", "grpcurl");
    const env = { PATH: join(home, "bin"), XDG_CACHE_HOME: join(home, "cache") };
    expect(findProgram("grpcurl", env)).toBe(onPath);
  });

  test("finds programs in the folder of the install script", () => {
    const built = createFile("cache/gatewayproxy/bin", "grpcurl");
    expect(findProgram("grpcurl", { PATH: "", XDG_CACHE_HOME: join(home, "cache") })).toBe(built);
  });

  test("finds only the binary that the environment names, if it names one", () => {
    createFile("bin", "ratelimit");
    const named = createFile("elsewhere", "service_cmd");
    const env = { PATH: join(home, "bin"), XDG_CACHE_HOME: home };
    expect(findProgram("ratelimit", { ...env, RATELIMIT_REFERENCE: named })).toBe(named);
    expect(findProgram("ratelimit", { ...env, RATELIMIT_REFERENCE: join(home, "gone") })).toBeUndefined();
  });

  test("skips folders and files that are not executable", () => {
    mkdirSync(join(home, "bin", "grpcurl"), { recursive: true });
    createFile("other", "grpcurl", 0o644);
    const env = { PATH: `${join(home, "bin")}:${join(home, "other")}`, XDG_CACHE_HOME: home };
    expect(findProgram("grpcurl", env)).toBeUndefined();
  });
});

test("requireProgram names the program and the script that installs it", () => {
  expect(() => requireProgram("grpcurl", { PATH: "", XDG_CACHE_HOME: home })).toThrow(
    "grpcurl is not installed; run scripts/install-test-programs.sh",
  );
});

describe("the install script", () => {
  const path = join(import.meta.dirname, "../../scripts/install-test-programs.sh");
  const installed = [
    ...readFileSync(path, "utf8").matchAll(/^ *(?:from_apt|from_go|from_module) (\w[\w-]*)|^(\w+)_from_(?:pypi|go)$/gm),
  ].map((match) => match[1] ?? match[2]);

  test("installs every program that tests may require", () => {
    expect(testPrograms.filter((name) => !installed.includes(name))).toEqual([]);
  });

  test("installs every program that a cluster without a registry needs, except npm", () => {
    const rig = readFileSync(join(import.meta.dirname, "../rig/kind/rig.sh"), "utf8");
    const needed = /^ {2}for name in (.+); do$/m.exec(rig)?.[1]?.split(" ") ?? [];
    expect(needed).toContain("debootstrap");
    // The package of the daemon contains the client.
    expect(installed).toContain("dockerd");
    expect(needed.filter((name) => name !== "npm" && name !== "docker" && !installed.includes(name))).toEqual([]);
  });

  test.each([
    { version: "go1.19.8", verdict: "missing" },
    { version: "go1.21.0", verdict: "present" },
    { version: "go1.30.1", verdict: "present" },
  ])("accepts Go from 1.21, which downloads later versions itself: $version is $verdict", ({ version, verdict }) => {
    const go = createFile("bin", "go");
    writeFileSync(go, `#!/bin/sh\necho ${version}\n`);
    const { stdout } = spawnSync(path, ["--check"], {
      encoding: "utf8",
      env: { ...process.env, PATH: `${join(home, "bin")}:${process.env["PATH"]}`, XDG_CACHE_HOME: join(home, "cache") },
    });
    expect(stdout).toMatch(new RegExp(`^go +${verdict} `, "m"));
  });
});
