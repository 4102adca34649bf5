import { defineConfig } from "vitest/config";
import { MissingProgramsReporter } from "./test/support/missing-programs-reporter.ts";

// Unit tests sit beside their source; tests of whole programs sit under test/.
export default defineConfig({
  test: {
    include: ["*/src/**/*.test.ts", "examples/*/src/**/*.test.ts", "test/**/*.test.ts"],
    testTimeout: 20_000,
    hookTimeout: 30_000,
    reporters: ["default", new MissingProgramsReporter()],
  },
});
