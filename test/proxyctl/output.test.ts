/** What becomes of the answers of proxyctl where nobody can take them, as a process of its own. */
import { spawnSync } from "node:child_process";
import { closeSync, existsSync, openSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";

const main = join(import.meta.dirname, "../../proxyctl/src/main.ts");

test.runIf(existsSync("/dev/full"))("an answer that cannot be written is told in words, with exit code 2", () => {
  const full = openSync("/dev/full", "w");
  onTestFinished(() => closeSync(full));
  const run = spawnSync(process.execPath, [main, "--version"], { stdio: ["ignore", full, "pipe"], encoding: "utf8" });
  expect(run.stderr).toBe("error: write the answer: ENOSPC: no space left on device, write\n");
  expect(run.status).toBe(2);
});

test("a reader who has seen enough is no fault", () => {
  const pipe = `"${process.execPath}" "${main}" completion bash; echo "exit $?" >&2`;
  const run = spawnSync("bash", ["-c", `(${pipe}) | true`], { encoding: "utf8" });
  expect(run.stderr).toBe("exit 0\n");
});
