/**
 * Fuzzers, attacks and the soak, for HARDENING_SECONDS: `npm run test:hardening`. `npm test` runs the same fuzzers only
 * on their stored cases, and skips the soak.
 */
import { defineConfig } from "vitest/config";
import { expectOptions, jsonReport, retry } from "../support/ci-run.ts";
import { MissingProgramsReporter } from "../support/missing-programs-reporter.ts";

const seconds = process.env["HARDENING_SECONDS"] ?? "10";

export default defineConfig({
  test: {
    include: ["test/hardening/**/*.test.ts"],
    globalSetup: ["test/support/bundle-programs.ts"],
    env: { HARDENING_SECONDS: seconds },
    // Each file measures its own processes: other files at the same time would distort the values.
    fileParallelism: false,
    // The host can interrupt any turn, which only makes it longer: a bound is exceeded if it is so in each of three
    // runs.
    retry: retry === 0 ? 0 : { ...retry, count: 2 },
    testTimeout: 300_000 + 2_000 * Number(seconds),
    hookTimeout: 120_000,
    // Seeds and counts of cases are part of the output.
    disableConsoleIntercept: true,
    expect: expectOptions,
    reporters: ["default", new MissingProgramsReporter(), ...jsonReport("TEST_REPORT_HARDENING")],
  },
});
