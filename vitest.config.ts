import { defineConfig } from "vitest/config";
import { expectOptions, jsonReport, retry } from "./test/support/ci-run.ts";
import { MissingProgramsReporter } from "./test/support/missing-programs-reporter.ts";

// Unit tests sit beside their source; tests of whole programs sit under test/.
export default defineConfig({
  test: {
    include: ["*/src/**/*.test.ts", "examples/*/src/**/*.test.ts", "test/**/*.test.ts"],
    // Those need a cluster (`npm run test:kube` and `npm run test:e2e`), and those take minutes (`npm run test:hardening`, `npm run faults`).
    exclude: ["**/node_modules/**", "test/kube/**", "test/e2e/**", "test/hardening/soak/**", "test/faults/**"],
    // Many files wait for processes, so even the last core has work.
    maxWorkers: "100%",
    globalSetup: ["test/support/bundle-programs.ts"],
    testTimeout: 20_000,
    hookTimeout: 30_000,
    expect: expectOptions,
    retry,
    reporters: ["default", new MissingProgramsReporter(), ...jsonReport("TEST_REPORT")],
  },
});
