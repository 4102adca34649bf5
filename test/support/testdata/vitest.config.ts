// A separate vitest run for describe-with.test.ts.
import { defineConfig } from "vitest/config";
import { MissingProgramsReporter } from "../missing-programs-reporter.ts";

export default defineConfig({
  test: { include: ["**/*.fixture.ts"], reporters: ["default", new MissingProgramsReporter()] },
});
