import { execFileSync } from "node:child_process";
import { expect, test } from "vitest";

/**
 * Makes objects at one place in the code that all last, round after round, and tells in which generation the next one
 * lies. In a thread of its own, as whatever serves requests.
 */
const lastingObjects = `
  const inYoungGeneration = new Function("object", "return %InYoungGeneration(object)");
  const make = (i) => [i, i + 1, i + 2, i + 3];
  let kept = [];
  for (let round = 0; round < 120; round++) {
    for (let i = 0; i < 50_000; i++) kept.push(make(i));
    if (round % 20 === 19) kept = [];
  }
  console.log(inYoungGeneration(make(1)) ? "young" : "old");`;

const startThread = `
  const { Worker } = await import("node:worker_threads");
  new Worker(${JSON.stringify(lastingObjects)}, { eval: true });`;

test("what lasts does not make the engine take what follows for lasting", () => {
  const script = `
    const { allocateYoung } = await import("@gatewayproxy/runtime/allocation");
    allocateYoung();
    ${startThread}`;
  const args = ["--allow-natives-syntax", "--input-type", "module", "--eval", script];
  expect(execFileSync(process.execPath, args, { cwd: import.meta.dirname, encoding: "utf8" })).toBe("young\n");
});
