/**
 * Tests against a real API server: `npm run test:kube`. They share one control plane, which `global-setup.ts` starts.
 */
import { defineConfig } from "vitest/config";
import { buildCommand } from "../rig/binaries.ts";
import { expectOptions, jsonReport, retry } from "../support/ci-run.ts";
import { MissingProgramsReporter } from "../support/missing-programs-reporter.ts";

export default defineConfig({
  test: {
    include: ["test/kube/**/*.test.ts"],
    globalSetup: ["test/support/bundle-programs.ts", "test/kube/support/global-setup.ts"],
    // Controllers of several files would all act on the one cluster.
    fileParallelism: false,
    testTimeout: 60_000,
    hookTimeout: 120_000,
    expect: expectOptions,
    retry,
    reporters: ["default", new MissingProgramsReporter(buildCommand), ...jsonReport("TEST_REPORT_KUBE")],
  },
});
