import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { readUiFiles } from "./ui-files.ts";

function folder(): string {
  const directory = mkdtempSync(join(tmpdir(), "ui-"));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  return directory;
}

test("the page is at /ui, its files are below", () => {
  const directory = folder();
  for (const file of ["index.html", "a.js"]) writeFileSync(join(directory, file), file);
  const files = readUiFiles(directory);
  for (const path of ["/ui", "/ui/", "/ui/index.html"]) {
    expect(files(path)).toMatchObject({ bytes: Buffer.from("index.html") });
  }
  expect(files("/ui/a.js")).toMatchObject({ contentType: "text/javascript; charset=utf-8" });
  expect(files("/ui/b.js")).toBeUndefined();
});

test("a page that was not built explains how to build it", () => {
  const files = readUiFiles(join(folder(), "dist"));
  const hint = "run npm run build:ui, then restart the proxy";
  for (const path of ["/ui", "/ui/"]) expect(files(path)).toMatchObject({ status: 404, hint });
});
