import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { visibleFolder } from "./checkout.ts";

const isRoot = process.getuid?.() === 0;

async function folderIn(parent: string): Promise<string> {
  const folder = await mkdtemp(join(parent, "checkout-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  return folder;
}

test("a folder that pods can see keeps its path", async () => {
  const { pathOf, remove } = await visibleFolder("/srv/checkout", "checkout");
  expect(pathOf("/srv/checkout/main.ts")).toBe("/srv/checkout/main.ts");
  await remove();
});

test.skipIf(!isRoot)("a folder below /tmp gets a second path until it is removed", async () => {
  const folder = await folderIn("/tmp");
  await writeFile(join(folder, "main.ts"), "program");
  const home = await folderIn(homedir());
  const { pathOf, remove } = await visibleFolder(folder, "checkout", home);
  const visible = pathOf(join(folder, "main.ts"));
  expect(visible).toBe(join(home, "run", "checkout", "main.ts"));
  expect(await readFile(visible, "utf8")).toBe("program");
  expect(pathOf("/usr/bin/node")).toBe("/usr/bin/node");
  await remove();
  await expect(readFile(visible)).rejects.toThrow("ENOENT");
  expect(await readFile(join(folder, "main.ts"), "utf8")).toBe("program");
});

test("a rig below /tmp is an error that names the setting", async () => {
  await expect(visibleFolder("/tmp/checkout", "checkout", "/tmp/rig")).rejects.toThrow(
    "the rig is in /tmp/rig, and each pod has a /tmp of its own; set KUBE_RIG_HOME to a folder elsewhere",
  );
});
