/**
 * The effect of faults on clients, measured under load: `npm run faults`. FAULTS_WRITE=true writes the table to
 * docs/reliability.md; FAULTS_RATE changes the requests a second.
 */
import { defineConfig } from "vitest/config";
import { expectOptions } from "../support/ci-run.ts";
import { MissingProgramsReporter } from "../support/missing-programs-reporter.ts";
import { FiguresReporter } from "./figures-reporter.ts";

export default defineConfig({
  test: {
    include: ["test/faults/**/*.test.ts"],
    // Each file measures: others at the same time would distort the results.
    fileParallelism: false,
    testTimeout: 600_000,
    hookTimeout: 120_000,
    expect: expectOptions,
    reporters: ["default", new MissingProgramsReporter(), new FiguresReporter()],
  },
});
