/** `.ci/run` in a repository whose commands only record that they were called. */
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";

const repository = join(import.meta.dirname, "../..");
/** The programs that the run needs on any machine. Neither docker nor kind: no image can be pulled. */
const basics = ["bash", "dirname", "env", "rm", "cat", "nice", "sleep", "tee"];
const own = ["scripts/install-test-programs.sh", "scripts/check-production-install.sh", "test/rig/build.sh"];
const green = JSON.stringify({
  success: true,
  numPassedTests: 1,
  numFailedTests: 0,
  numPendingTests: 0,
  numTodoTests: 0,
  testResults: [],
  otherErrors: [],
});

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "ci-run-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  for (const file of [".ci/run", "scripts/test-totals.ts", "scripts/not-run.ts"]) {
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    copyFileSync(join(repository, file), join(folder, file));
  }
  mkdirSync(join(folder, "bin"));
  for (const name of basics) {
    symlinkSync(
      execFileSync("bash", ["-c", `type -P ${name}`], { encoding: "utf8" }).trim(),
      join(folder, "bin", name),
    );
  }
  symlinkSync(process.execPath, join(folder, "bin/node"));
  for (const path of own) program(path, "exit 0");
  // The programs of tests write reports; of the scripts only the tested one runs.
  npm();
});

/** @param more shell commands of the npm that the run finds, before it ends */
function npm(more = ""): void {
  program(
    "bin/npm",
    `case "$*" in
  *test-totals.ts*) shift 2; exec "$@" ;;
esac
echo "npm $*" >>"${folder}/calls"
for report in "\${TEST_REPORT-}" "\${TEST_REPORT_KUBE-}" "\${TEST_REPORT_E2E-}" "\${TEST_REPORT_HARDENING-}"; do
  if [ -n "$report" ]; then echo '${green}' >"$report"; fi
done
${more}`,
  );
}

function program(path: string, text: string): void {
  mkdirSync(dirname(join(folder, path)), { recursive: true });
  writeFileSync(join(folder, path), `#!/bin/sh\n${text}\n`);
  chmodSync(join(folder, path), 0o755);
}

function run() {
  const { status, stdout } = spawnSync(join(folder, ".ci/run"), {
    encoding: "utf8",
    env: { PATH: join(folder, "bin"), TMPDIR: folder },
  });
  return {
    status,
    stdout,
    end: stdout
      .slice(stdout.lastIndexOf("\n== ") + 1)
      .trimEnd()
      .split("\n"),
  };
}

describe("a run", () => {
  test("without the programs of a cluster reports the skipped tests at its end", () => {
    program("test/rig/kind/rig.sh", "echo 'docker is not installed'; echo 'ip is not installed'; exit 1");
    const { status, end } = run();
    expect(end).toEqual([
      "== not run:",
      "   npm run test:e2e: no cluster can be made here: docker is not installed; ip is not installed",
      "3 passed, 0 failed",
    ]);
    expect(status).toBe(0);
    expect(readFileSync(join(folder, "calls"), "utf8")).not.toContain("test:e2e");
  });

  test("with them runs everything, and reports that nothing was left out", () => {
    program("test/rig/kind/rig.sh", "exit 0");
    const { status, end } = run();
    expect(end).toEqual(["== nothing was left out", "4 passed, 0 failed"]);
    expect(status).toBe(0);
    const calls = readFileSync(join(folder, "calls"), "utf8");
    for (const command of ["run check", "run test:kube", "run test:e2e", "run test:hardening", "run bench"]) {
      expect(calls).toContain(`npm ${command}`);
    }
  });

  test("continues after a step that fails, names it, and fails", () => {
    program("test/rig/kind/rig.sh", "exit 0");
    program("scripts/check-production-install.sh", "exit 3");
    const { status, stdout, end } = run();
    const afterTimes = stdout.slice(stdout.indexOf("\n== seconds of each step\n"));
    for (const part of [stdout, afterTimes]) expect(part).toContain("!! failed: scripts/check-production-install.sh\n");
    expect(end.at(-1)).toBe("4 passed, 0 failed");
    expect(status).toBe(1);
  });

  test("runs the tests in clusters beside the other steps, and prints what they print afterwards", () => {
    program("test/rig/kind/rig.sh", "exit 0");
    npm(`case "$*" in
  "run check") : >"${folder}/check"; until [ -e "${folder}/e2e" ]; do sleep 0.05; done; echo "end of the check" ;;
  "run test:e2e") : >"${folder}/e2e"; until [ -e "${folder}/check" ]; do sleep 0.05; done; echo "end of e2e" ;;
  "run test:hardening") : >"${folder}/hardening"; until [ -e "${folder}/kube" ]; do sleep 0.05; done ;;
  "run test:kube") : >"${folder}/kube"; until [ -e "${folder}/hardening" ]; do sleep 0.05; done; echo "end of kube" ;;
esac`);
    const { status, stdout } = run();
    expect(status).toBe(0);
    const lines = stdout.split("\n").filter((line) => !line.startsWith("== took"));
    const check = lines.findIndex((line) => line.endsWith("npm run check"));
    expect(lines[check + 1]).toBe("end of the check");
    const beside = lines.indexOf("== beside these steps");
    expect(beside).toBeGreaterThan(lines.findIndex((line) => line.endsWith("npm run test:hardening")));
    expect(lines.slice(beside + 1, beside + 5)).toEqual([
      expect.stringMatching(/^== .* npm run test:e2e$/),
      "end of e2e",
      expect.stringMatching(/^== .* npm run test:kube$/),
      "end of kube",
    ]);
    const times = lines.slice(lines.indexOf("== seconds of each step"));
    for (const step of ["npm run check", "npm run test:e2e", "npm run test:kube"]) {
      expect(times).toContainEqual(expect.stringMatching(new RegExp(`^ *\\d+ s  .*${step}$`)));
    }
  });

  test.each(["test:e2e", "test:kube"])("fails if the tests of %s fail", (tests) => {
    program("test/rig/kind/rig.sh", "exit 0");
    npm(`case "$*" in "run ${tests}") exit 3 ;; esac`);
    const { status, stdout } = run();
    expect(stdout).toMatch(new RegExp(`^!! failed: .* npm run ${tests}$`, "m"));
    expect(status).toBe(1);
  });

  test("that is ended leaves no step behind", async () => {
    program("test/rig/kind/rig.sh", "exit 0");
    npm(`case "$*" in
  "run check" | "run test:e2e") echo $$ >"${folder}/pid of $2"; while :; do sleep 0.05; done ;;
esac`);
    const child = spawn(join(folder, ".ci/run"), {
      stdio: "ignore",
      detached: true,
      env: { PATH: join(folder, "bin"), TMPDIR: folder },
    });
    const exited = once(child, "exit");
    const pids = ["check", "test:e2e"].map((step) => join(folder, `pid of ${step}`));
    await expect.poll(() => pids.every(existsSync)).toBe(true);
    // As a terminal or a runner ends it: with the programs that it has started.
    process.kill(-(child.pid ?? 0), "SIGTERM");
    await exited;
    const isRunning = (file: string): boolean => {
      try {
        return process.kill(Number(readFileSync(file, "utf8")), 0);
      } catch {
        return false;
      }
    };
    await expect.poll(() => pids.filter(isRunning)).toEqual([]);
  });
});
