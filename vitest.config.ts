import { defineConfig } from "vitest/config";
import { MissingProgramsReporter } from "./test/support/missing-programs-reporter.ts";

// Where .ci/run wants the totals of the run; nobody else sets it.
const jsonPath = process.env["TEST_REPORT"];
const jsonReport: ["json", { outputFile: string }][] =
  jsonPath === undefined ? [] : [["json", { outputFile: jsonPath }]];

// Unit tests sit beside their source; tests of whole programs sit under test/.
export default defineConfig({
  test: {
    include: ["*/src/**/*.test.ts", "examples/*/src/**/*.test.ts", "test/**/*.test.ts"],
    // Those need a cluster: `npm run test:kube` and `npm run test:e2e`.
    exclude: ["**/node_modules/**", "test/kube/**", "test/e2e/**"],
    testTimeout: 20_000,
    hookTimeout: 30_000,
    reporters: ["default", new MissingProgramsReporter(), ...jsonReport],
  },
});
