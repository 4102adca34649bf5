/** The variants of the proxy in the benchmark are what their names say, also after changes of the sources. */
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { expect, test } from "vitest";

const repository = join(import.meta.dirname, "../../..");

/** The output of a script that runs with a variant preloaded. */
function runWith(variant: string, script: string): string {
  const preload = join(import.meta.dirname, variant);
  const args = ["--import", preload, "--input-type", "module", "--eval", script];
  return execFileSync(process.execPath, args, { cwd: repository, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
}

test("without the trace hook the data path never checks whether a request is traced", () => {
  const script = ["pipeline/stages", "pipeline/exchange", "data-plane/data-plane"]
    .map((file) => `await import("./proxy/src/${file}.ts");`)
    .join("\n");
  expect(runWith("without-trace-hook.ts", `${script}\nconsole.log("loaded");`)).toBe("loaded\n");
});

test("without heap sampling a thread has no samples", () => {
  const script = `
    const { readHeapSamples, startHeapSampling } = await import("@gatewayproxy/runtime/heap-sampling");
    startHeapSampling();
    try { readHeapSamples(); } catch { console.log("none"); }`;
  expect(runWith("without-heap-sampling.ts", script)).toBe("none\n");
});
