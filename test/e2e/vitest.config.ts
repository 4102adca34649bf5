/**
 * Tests in a real cluster: `npm run test:e2e`. They share the cluster of `scripts/kind-up.sh`, each file in its own
 * namespace, one after the other, because they share a node port.
 */
import { defineConfig } from "vitest/config";
import { expectOptions, jsonReport, retry } from "../support/ci-run.ts";

export default defineConfig({
  test: {
    include: ["test/e2e/**/*.test.ts"],
    globalSetup: ["test/e2e/support/global-setup.ts"],
    fileParallelism: false,
    // They wait for pods.
    testTimeout: 180_000,
    hookTimeout: 180_000,
    expect: expectOptions,
    retry,
    reporters: ["default", ...jsonReport("TEST_REPORT_E2E")],
  },
});
