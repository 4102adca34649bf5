/**
 * What clients see of faults, under load, with figures: `npm run faults`. FAULTS_WRITE=true keeps the table in
 * docs/reliability.md; FAULTS_RATE changes the requests a second.
 */
import { defineConfig } from "vitest/config";
import { expectOptions } from "../support/ci-run.ts";
import { MissingProgramsReporter } from "../support/missing-programs-reporter.ts";
import { FiguresReporter } from "./figures-reporter.ts";

export default defineConfig({
  test: {
    include: ["test/faults/**/*.test.ts"],
    // Each measures; others beside it would spoil the figures.
    fileParallelism: false,
    testTimeout: 600_000,
    hookTimeout: 120_000,
    expect: expectOptions,
    reporters: ["default", new MissingProgramsReporter(), new FiguresReporter()],
  },
});
