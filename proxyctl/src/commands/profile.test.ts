import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { startAdmin } from "../testing/admin.ts";
import { proxyctl } from "../testing/run.ts";

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "proxyctl-profile-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  return folder;
}

test("a file that cannot be written is reported before the recording", async () => {
  const admin = await startAdmin({ "GET /debug/pprof/profile": "profile" });
  const run = await proxyctl(["profile", "cpu", "-s", "300", "-o", "/nowhere/x", "--address", admin.address]);
  expect(run).toMatchObject({ exitCode: 2, stdout: "" });
  expect(run.stderr).toMatch(/^error: write the profile to \/nowhere\/x: ENOENT.*\n {2}name another file with -o\n$/);
  expect(admin.requests).toEqual([]);
});

test("a profile takes the place of what the file held", async () => {
  const file = join(newFolder(), "heap.pb.gz");
  writeFileSync(file, "an older and longer one");
  const admin = await startAdmin({ "GET /debug/pprof/heap": "profile" });
  expect((await proxyctl(["profile", "heap", "-o", file, "--address", admin.address])).exitCode).toBe(0);
  expect(readFileSync(file, "utf8")).toBe("profile");
});

test("a profile that cannot be had leaves no file, and an older one as it was", async () => {
  const folder = newFolder();
  const older = join(folder, "older.pb.gz");
  writeFileSync(older, "older");
  const admin = await startAdmin({});
  for (const file of [older, join(folder, "new.pb.gz")]) {
    expect((await proxyctl(["profile", "heap", "-o", file, "--address", admin.address])).exitCode).toBe(2);
  }
  expect(readdirSync(folder)).toEqual(["older.pb.gz"]);
  expect(readFileSync(older, "utf8")).toBe("older");
});
