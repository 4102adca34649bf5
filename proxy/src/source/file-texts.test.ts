import { mkdtempSync, renameSync, rmSync, statSync, symlinkSync, utimesSync, writeFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { FileTexts } from "./file-texts.ts";

let folder = "";
let path = "";
const clock = new FakeClock(Date.now());
let reads: string[] = [];
let texts: FileTexts;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "texts-"));
  path = join(folder, "a.yaml");
  writeFileSync(path, "one");
  reads = [];
  texts = new FileTexts(clock, (file) => {
    reads.push(file);
    return readFile(file, "utf8");
  });
});

afterEach(() => rmSync(folder, { recursive: true }));

async function pass(): Promise<string> {
  const text = await texts.text(path, statSync(path, { bigint: true }));
  texts.endPass();
  return text;
}

/** As long as a change may leave the status as it is. */
const waitUntilSettled = (): void => clock.advance(60_000);

describe("a file that has not changed for some seconds", () => {
  beforeEach(async () => {
    waitUntilSettled();
    await pass();
  });

  test("is read once", async () => {
    expect([await pass(), await pass()]).toEqual(["one", "one"]);
    expect(reads).toEqual([path]);
  });

  test.each<[change: string, make: () => void]>([
    ["it is written, with as many bytes", () => writeFileSync(path, "two")],
    [
      "it is written, and its time is set back",
      () => {
        const { atime, mtime } = statSync(path);
        writeFileSync(path, "two");
        utimesSync(path, atime, mtime);
      },
    ],
    [
      "another file takes its name",
      () => {
        writeFileSync(join(folder, "b.yaml"), "two");
        renameSync(join(folder, "b.yaml"), path);
      },
    ],
    [
      "a link to another file takes its name",
      () => {
        writeFileSync(join(folder, "b"), "two");
        symlinkSync(join(folder, "b"), join(folder, "link"));
        renameSync(join(folder, "link"), path);
      },
    ],
  ])("is read again when %s", async (_, make) => {
    make();

    expect(await pass()).toBe("two");
  });

  test("is read again after a pass without it", async () => {
    texts.endPass();

    expect(await pass()).toBe("one");
    expect(reads).toEqual([path, path]);
  });
});

test("a file that has just changed is read in each pass, since its next change may have the same time", async () => {
  const now = new FakeClock(Date.now());
  texts = new FileTexts(now, (file) => {
    reads.push(file);
    return readFile(file, "utf8");
  });

  await pass();
  await pass();
  expect(reads).toHaveLength(2);

  now.advance(60_000);
  await pass();
  await pass();
  expect(reads).toHaveLength(3);
});
