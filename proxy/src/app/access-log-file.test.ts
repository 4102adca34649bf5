import { mkdir, mkdtemp, readFile, rename, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Logs } from "@gatewayproxy/runtime/log";
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { expect, onTestFinished, test } from "vitest";
import { AccessLogFile } from "./access-log-file.ts";

async function openFile(path: string) {
  const lines: string[] = [];
  const clock = new FakeClock();
  const destination = { write: (line: string) => void lines.push(line) };
  const logs = new Logs({ filter: { level: "info", modules: new Map() }, clock, destination });
  const opened = await AccessLogFile.open(path, logs.logger("proxy::lifecycle"), clock);
  if (!opened.ok) throw new Error(JSON.stringify(opened));
  onTestFinished(() => opened.value.close());
  return { file: opened.value, messages: () => lines.map((line) => (JSON.parse(line) as { msg: string }).msg) };
}

async function newFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "gatewayproxy-log-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

test("lines are in the order of the calls, before and after the file is opened again", async () => {
  const folder = await newFolder();
  const { file } = await openFile(join(folder, "access.log"));
  void file.append("1\n");
  void file.append("2\n3\n");
  await file.append("4\n");
  await rename(join(folder, "access.log"), join(folder, "rotated.log"));
  void file.append("5\n");
  void file.reopen();
  expect(await file.append("6\n")).toBe(0);
  expect(await readFile(join(folder, "rotated.log"), "utf8")).toBe("1\n2\n3\n4\n5\n");
  expect(await readFile(join(folder, "access.log"), "utf8")).toBe("6\n");
});

test("a path that cannot be opened again keeps the open file, and later opens a new one", async () => {
  const folder = await newFolder();
  const inner = join(folder, "inner");
  await mkdir(inner);
  const { file, messages } = await openFile(join(inner, "access.log"));
  await rename(inner, join(folder, "moved"));
  await file.reopen();
  await file.append("1\n");
  await mkdir(inner);
  await file.reopen();
  await file.append("2\n");
  expect(await readFile(join(folder, "moved", "access.log"), "utf8")).toBe("1\n");
  expect(await readFile(join(inner, "access.log"), "utf8")).toBe("2\n");
  expect(messages()).toEqual([
    "the access log file cannot be opened again; the previous one stays in use",
    "access log file opened again",
  ]);
});

test("lines that cannot be written are counted, and reported at most once a second", async () => {
  const { file, messages } = await openFile("/dev/full");
  expect(await file.append("1\n2\n")).toBe(2);
  expect(await file.append("3\n")).toBe(1);
  expect(messages()).toEqual(["lines of the access log cannot be written"]);
});
