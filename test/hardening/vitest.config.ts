/**
 * Fuzzers, attacks and the soak, for HARDENING_SECONDS: `npm run test:hardening`. `npm test` runs the same fuzzers only
 * on their stored cases, and skips the soak.
 */
import { defineConfig } from "vitest/config";
import { expectOptions, jsonReport } from "../support/ci-run.ts";
import { MissingProgramsReporter } from "../support/missing-programs-reporter.ts";

const seconds = process.env["HARDENING_SECONDS"] ?? "10";

export default defineConfig({
  test: {
    include: ["test/hardening/**/*.test.ts"],
    globalSetup: ["test/support/bundle-programs.ts"],
    env: { HARDENING_SECONDS: seconds },
    // Each file measures its own processes: other files at the same time would distort the values.
    fileParallelism: false,
    testTimeout: 300_000 + 2_000 * Number(seconds),
    hookTimeout: 120_000,
    // Seeds and counts of cases are part of the output.
    disableConsoleIntercept: true,
    expect: expectOptions,
    reporters: ["default", new MissingProgramsReporter(), ...jsonReport("TEST_REPORT_HARDENING")],
  },
});
