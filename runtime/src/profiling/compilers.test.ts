import { execFileSync } from "node:child_process";
import { expect, test } from "vitest";

/** Prints which compilers have made the code of a function that is called often, in a worker thread. */
const hotFunction = `
  const add = (a, b) => a + b;
  const isSparkplug = new Function("fn", "return %ActiveTierIsSparkplug(fn)");
  const isMaglev = new Function("fn", "return %ActiveTierIsMaglev(fn)");
  const isTurboFan = new Function("fn", "return %ActiveTierIsTurbofan(fn)");
  const tiers = new Set();
  let sum = 0;
  for (let round = 0; round < 400; round++) {
    for (let i = 0; i < 20_000; i++) sum = add(sum, i);
    if (isSparkplug(add)) tiers.add("Sparkplug");
    if (isMaglev(add)) tiers.add("Maglev");
    if (isTurboFan(add)) tiers.add("TurboFan");
    // Compilers are threads of their own.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
  }
  console.log([...tiers].sort().join());`;

function compilersAfter(setup: string): string {
  const script = `
    const compilers = await import("./compilers.ts");
    ${setup}
    const { Worker } = await import("node:worker_threads");
    new Worker(${JSON.stringify(hotFunction)}, { eval: true });`;
  const args = ["--allow-natives-syntax", "--input-type", "module", "--eval", script];
  return execFileSync(process.execPath, args, { cwd: import.meta.dirname, encoding: "utf8" }).trim();
}

test.each([
  ["compilers.pauseCompilers();", "Maglev"],
  ["compilers.disableMaglev();", "Sparkplug,TurboFan"],
  ["compilers.disableMaglev(); compilers.pauseCompilers();", ""],
  ["compilers.disableMaglev(); compilers.pauseCompilers(); compilers.resumeCompilers();", "Sparkplug,TurboFan"],
  ["compilers.disableMaglev(); compilers.pauseCompilers(1);", "Sparkplug,TurboFan"],
  ["compilers.disableMaglev(); compilers.pauseCompilers(1); compilers.completeStart();", ""],
])("after %j, functions are compiled by %j", (setup, compilers) => {
  expect(compilersAfter(setup)).toBe(compilers);
});
