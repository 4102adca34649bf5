/** Output errors of proxyctl, in its process. */
import { spawnSync } from "node:child_process";
import { closeSync, existsSync, openSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";

const main = join(import.meta.dirname, "../../proxyctl/src/main.ts");

test.runIf(existsSync("/dev/full"))("output that cannot be written is reported, with exit code 2", () => {
  const full = openSync("/dev/full", "w");
  onTestFinished(() => closeSync(full));
  const run = spawnSync(process.execPath, [main, "--version"], { stdio: ["ignore", full, "pipe"], encoding: "utf8" });
  expect(run.stderr).toBe("error: write the output: ENOSPC: no space left on device, write\n");
  expect(run.status).toBe(2);
});

test("a reader that closes the pipe is no error", () => {
  const pipe = `"${process.execPath}" "${main}" completion bash; echo "exit $?" >&2`;
  const run = spawnSync("bash", ["-c", `(${pipe}) | true`], { encoding: "utf8" });
  expect(run.stderr).toBe("exit 0\n");
});
