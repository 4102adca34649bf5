import { symlinkSync } from "node:fs";
import { chmod, lstat, mkdtemp, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { BlockFile, maxBlockBytes } from "./block-file.ts";

const text = "test-file-000001";
const blocks = ["one", "", "three", "the fourth block"];

async function newPath(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), "blocks-"));
  onTestFinished(() => rm(directory, { recursive: true }));
  return join(directory, "file");
}

/** Puts a link at a path as soon as nothing is there, while the file system works on another thread. */
function linkOnceFree(target: string, path: string): boolean {
  for (let attempt = 0; attempt < 100; attempt++) {
    try {
      symlinkSync(target, path);
      return true;
    } catch {
      // Something is there.
    }
  }
  return false;
}

async function write(path: string, contents: readonly string[]): Promise<Buffer> {
  const file = await BlockFile.create(path, text);
  await Promise.all(contents.map((block) => file.append(Buffer.from(block))));
  await file.close();
  return await readFile(path);
}

/** Returns the valid blocks and how they end; undefined for a foreign file. */
async function read(
  path: string,
): Promise<{ blocks: readonly string[]; end: string; excessBytes: number } | undefined> {
  const opened = await BlockFile.read(path, text);
  if (opened === undefined) return undefined;
  const found = Array.from(opened.blocks(), (block) => Buffer.from(block).toString());
  await opened.file.close();
  return { blocks: found, end: opened.end, excessBytes: opened.excessBytes };
}

/** The number of blocks within the first bytes. */
function wholeBlocks(bytes: number): number {
  let end = text.length;
  return blocks.findIndex((block) => (end += block.length + 12) > bytes);
}

describe("a file of blocks", () => {
  test("has the blocks in the order of the calls, and is readable for its owner alone", async () => {
    const path = await newPath();
    await write(path, blocks);
    expect(await read(path)).toEqual({ blocks, end: "whole", excessBytes: 0 });
    expect((await stat(path)).mode & 0o777).toBe(0o600);
  });

  test("takes the place of a link or of a file with other permissions, and writes to neither", async () => {
    const [path, other] = [await newPath(), await newPath()];
    await writeFile(other, "another program's");
    await symlink(other, path);
    await write(path, blocks);
    expect(await readFile(other, "utf8")).toBe("another program's");
    expect((await lstat(path)).isFile()).toBe(true);
    await chmod(path, 0o666);
    await write(path, blocks);
    expect((await stat(path)).mode & 0o777).toBe(0o600);
  });

  test("writes to no link that is put there while it is created", async () => {
    let links = 0;
    // The moment without a file is short.
    for (let run = 0; links < 5 && run < 500; run++) {
      const [path, other] = [await newPath(), await newPath()];
      await writeFile(other, "another program's");
      await writeFile(path, "");
      const progress = { isOver: false };
      const created = BlockFile.create(path, text).then(
        (file) => file.close(),
        (error: unknown) => expect(error).toMatchObject({ code: "EEXIST" }),
      );
      void created.finally(() => (progress.isOver = true));
      let isLinked = false;
      while (!progress.isOver) {
        isLinked ||= linkOnceFree(other, path);
        await new Promise(setImmediate);
      }
      await created;
      links += isLinked ? 1 : 0;
      expect(await readFile(other, "utf8")).toBe("another program's");
    }
    expect(links).toBeGreaterThan(0);
  });

  test("that ends at any byte has the blocks before it", async () => {
    const path = await newPath();
    const whole = await write(path, blocks);
    for (let bytes = 0; bytes < whole.length; bytes++) {
      await writeFile(path, whole.subarray(0, bytes));
      const found = await read(path);
      const count = wholeBlocks(bytes);
      if (bytes < text.length) {
        expect(found, `${bytes}`).toBeUndefined();
      } else {
        expect(found?.blocks, `${bytes}`).toEqual(blocks.slice(0, count));
        expect(found?.end, `${bytes}`).toBe(found?.excessBytes === 0 ? "whole" : "torn");
      }
    }
  });

  test("that is changed at any byte has the blocks before it, and none after it", async () => {
    const path = await newPath();
    const whole = await write(path, blocks);
    for (let at = text.length; at < whole.length; at++) {
      const changed = Buffer.from(whole);
      changed[at] = (changed[at] ?? 0) ^ 0x10;
      await writeFile(path, changed);
      const found = await read(path);
      expect(found?.blocks, `${at}`).toEqual(blocks.slice(0, wholeBlocks(at)));
      expect(found?.end, `${at}`).toBe("damaged");
    }
  });

  test("that lacks a block, or has one of another file, ends before it", async () => {
    const path = await newPath();
    const whole = await write(path, ["a", "b", "c"]);
    const block = 13;
    const without = Buffer.concat([whole.subarray(0, text.length + block), whole.subarray(text.length + 2 * block)]);
    await writeFile(path, without);
    expect(await read(path)).toMatchObject({ blocks: ["a"], end: "damaged" });
    const other = await write(path, ["x", "b", "c"]);
    await writeFile(path, Buffer.concat([whole.subarray(0, text.length + block), other.subarray(text.length + block)]));
    expect(await read(path)).toMatchObject({ blocks: ["a"], end: "damaged" });
  });

  test("continues after its valid part", async () => {
    const path = await newPath();
    const whole = await write(path, ["a", "b"]);
    await writeFile(path, whole.subarray(0, whole.length - 2));
    const opened = await BlockFile.read(path, text);
    await opened?.file.removeExcess();
    await opened?.file.append(Buffer.from("c"));
    await opened?.file.close();
    expect(await read(path)).toEqual({ blocks: ["a", "c"], end: "whole", excessBytes: 0 });
  });

  test("has blocks of any length up to the maximum", async () => {
    const path = await newPath();
    const long = "x".repeat(maxBlockBytes);
    await write(path, [long, "a", long, long]);
    expect((await read(path))?.blocks.map(({ length }) => length)).toEqual([
      maxBlockBytes,
      1,
      maxBlockBytes,
      maxBlockBytes,
    ]);
  });
});
