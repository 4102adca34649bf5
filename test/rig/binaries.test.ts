import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { findRigProgram } from "./binaries.ts";

describe("a program of the rig", () => {
  let assets: string;
  let home: string;

  beforeEach(() => {
    const folder = mkdtempSync(join(tmpdir(), "binaries-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    assets = join(folder, "assets");
    home = join(folder, "home");
    for (const each of [assets, join(home, "bin")]) mkdirSync(each, { recursive: true });
  });

  const put = (folder: string, mode = 0o755): string => {
    const file = join(folder, "etcd");
    writeFileSync(file, "");
    chmodSync(file, mode);
    return file;
  };

  test("is the user's own if KUBEBUILDER_ASSETS has it", () => {
    put(join(home, "bin"));
    const own = put(assets);
    expect(findRigProgram("etcd", { KUBEBUILDER_ASSETS: assets, KUBE_RIG_HOME: home })).toBe(own);
  });

  test("is the built one if KUBEBUILDER_ASSETS lacks it", () => {
    const built = put(join(home, "bin"));
    expect(findRigProgram("etcd", { KUBEBUILDER_ASSETS: assets, KUBE_RIG_HOME: home })).toBe(built);
    expect(findRigProgram("etcd", { KUBE_RIG_HOME: home })).toBe(built);
  });

  test("is missing if it is not executable", () => {
    put(assets, 0o644);
    expect(findRigProgram("etcd", { KUBEBUILDER_ASSETS: assets, KUBE_RIG_HOME: home })).toBeUndefined();
  });
});
