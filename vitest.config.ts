import { defineConfig, type TestProjectInlineConfiguration } from "vitest/config";
import { expectOptions, jsonReport, retry } from "./test/support/ci-run.ts";
import { MissingProgramsReporter } from "./test/support/missing-programs-reporter.ts";

const shared = {
  globalSetup: ["test/support/bundle-programs.ts"],
  // For tests that hang. Under CI a cluster and other tests share two processors.
  testTimeout: 60_000,
  hookTimeout: 30_000,
  expect: expectOptions,
  retry,
};

/**
 * Those need a cluster (`npm run test:kube`, `npm run test:e2e`) or take minutes (`npm run test:hardening`, `npm run
 * faults`). Under CI `npm run test:hardening` runs all of test/hardening, so `npm test` leaves it out.
 */
const elsewhere = [
  ...["**/node_modules/**", "test/kube/**", "test/e2e/**", "test/faults/**"],
  process.env["CI"] === "true" ? "test/hardening/**" : "test/hardening/soak/**",
];

/** Tests within one process, beside their source and of several modules together. */
const inProcess = [
  "*/src/**/*.test.ts",
  "examples/*/src/**/*.test.ts",
  "test/{docs,examples,integration,layers,support}/**/*.test.ts",
];
/** Those that replace a module or measure their own process: no other file may have used it before. */
const alone = [
  "proxy/src/cel/charged-work.test.ts",
  "proxy/src/translate/route/wrong-conflicts.test.ts",
  "runtime/src/profiling/*.test.ts",
  "test/repository/regular-expressions.test.ts",
  "test/hardening/**/*.test.ts",
  "**/*.workers.test.ts",
];

// Unit tests sit beside their source; tests of whole programs sit under test/.
export default defineConfig({
  test: {
    // Many files wait for processes, so even the last core has work.
    maxWorkers: "100%",
    reporters: ["default", new MissingProgramsReporter(), ...jsonReport("TEST_REPORT")],
    projects: [
      // The files of one worker load each module once, which takes a third of their time otherwise.
      project("in process", { include: inProcess, exclude: alone, isolate: false }),
      project("programs", {
        include: ["test/**/*.test.ts"],
        exclude: [...alone, ...inProcess.filter((pattern) => pattern.startsWith("test/"))],
        isolate: false,
      }),
      project("alone", { include: alone, exclude: [], isolate: true }),
    ],
  },
});

interface Files {
  readonly include: readonly string[];
  readonly exclude: readonly string[];
  readonly isolate: boolean;
}

function project(name: string, { include, exclude, isolate }: Files): TestProjectInlineConfiguration {
  return {
    extends: true,
    test: { ...shared, name, include: [...include], exclude: [...elsewhere, ...exclude], isolate },
  };
}
