/** The source of the configuration does not determine the size of the log. */
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { expect, test } from "vitest";
import type { ConfigProblem } from "../config/config-problem.ts";
import type { ConfigUpdate } from "../config/config-source.ts";
import { ConfigLog } from "./config-log.ts";
import { createLogs } from "./logs.ts";

function startLog() {
  const lines: Record<string, unknown>[] = [];
  const clock = new FakeClock(1_700_000_000_000);
  const destination = { write: (line: string) => void lines.push(JSON.parse(line) as Record<string, unknown>) };
  const logs = createLogs({ filter: { level: "info", modules: new Map() }, format: "json" }, clock, destination, {});
  return { clock, lines, log: new ConfigLog(logs.logger("ratelimit::config"), clock) };
}

/** A load of so many files, each with its own problem. */
function load(files: number, problems: readonly ConfigProblem[] = []): ConfigUpdate {
  const parts = Array.from({ length: files }, (_, index) => ({ key: `${index}`, state: "current" as const }));
  return { config: { domains: new Map() }, parts, problems, warnings: [] };
}

test("a few loads at once have a line each", () => {
  const { lines, log } = startLog();
  for (let files = 1; files <= 10; files++) log.logLoad(load(files));
  expect(lines.map(({ files }) => files)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
});

test("of loads that follow each other without a pause, the last one of each second has a line, with the number of the others", () => {
  const { clock, lines, log } = startLog();
  const frequent = load(1);
  for (let loads = 1; loads < 100_000; loads++) log.logLoad(frequent);
  log.logLoad(load(2));
  expect(lines).toHaveLength(10);
  clock.advance(1_000);
  expect(lines).toHaveLength(11);
  expect(lines.at(-1)).toMatchObject({ files: 2, skippedLoads: 99_989, msg: "configuration loaded" });
});

test("after a pause, each load has a line again", () => {
  const { clock, lines, log } = startLog();
  for (let files = 1; files <= 11; files++) log.logLoad(load(files));
  clock.advance(20_000);
  log.logLoad(load(12));
  expect(lines.at(-1)).toMatchObject({ files: 12 });
  expect(lines.at(-1)).not.toHaveProperty("skippedLoads");
});

test("a load that waits for its line has it at the end of the process", () => {
  const { lines, log } = startLog();
  for (let files = 1; files <= 11; files++) log.logLoad(load(files));
  log.close();
  expect(lines.at(-1)).toMatchObject({ files: 11 });
});

test("a load with many problems has a line for the first hundred, and one with the number of the others", () => {
  const { lines, log } = startLog();
  const problems = Array.from({ length: 100_000 }, (_, index) => ({ resource: "limits", message: `problem ${index}` }));
  log.logLoad(load(1, problems));
  const texts = lines.filter(({ msg }) => msg === "configuration problem").map(({ problem }) => problem);
  expect(texts).toHaveLength(101);
  expect(texts.at(-1)).toBe("and 99900 more");
});
