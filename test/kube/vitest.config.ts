/** Tests against a real API server: `npm run test:kube`. They share one control plane, which `global-setup.ts` starts. */
import { defineConfig } from "vitest/config";
import { buildCommand } from "../rig/binaries.ts";
import { MissingProgramsReporter } from "../support/missing-programs-reporter.ts";

const jsonPath = process.env["TEST_REPORT_KUBE"];
const jsonReport: ["json", { outputFile: string }][] =
  jsonPath === undefined ? [] : [["json", { outputFile: jsonPath }]];

export default defineConfig({
  test: {
    include: ["test/kube/**/*.test.ts"],
    globalSetup: ["test/kube/support/global-setup.ts"],
    // Controllers of several files would all act on the one cluster.
    fileParallelism: false,
    testTimeout: 60_000,
    hookTimeout: 120_000,
    reporters: ["default", new MissingProgramsReporter(buildCommand), ...jsonReport],
  },
});
