/**
 * Says aloud, at the end of a run, which tests did not run because a program was missing; `describe-with.ts` marks them.
 */
import type { Reporter, TestCase, TestModule } from "vitest/node";
import { installCommand } from "./programs.ts";

/** Ends a run with one line that names the programs whose absence skipped tests, and how many tests that were. */
export class MissingProgramsReporter implements Reporter {
  readonly #write: (line: string) => void;
  readonly #command: string;

  /** @param command what brings the programs. */
  constructor(command = installCommand, write: (line: string) => void = (line) => process.stderr.write(line)) {
    this.#command = command;
    this.#write = write;
  }

  onTestRunEnd(modules: readonly TestModule[]): void {
    const missing = new Set<string>();
    let skipped = 0;
    for (const module of modules) {
      for (const testCase of module.children.allTests("skipped")) {
        const programs = missingProgramsOf(testCase);
        if (programs.length > 0) skipped += 1;
        for (const program of programs) missing.add(program);
      }
    }
    if (skipped === 0) return;
    const names = [...missing].sort().join(", ");
    this.#write(`\n!! ${skipped} tests SKIPPED for want of: ${names}. Run ${this.#command} to run them too.\n\n`);
  }
}

/** The programs that a skipped test would have needed. Vitest keeps the mark on the suite, and tests may sit in suites below it. */
export function missingProgramsOf(testCase: TestCase): readonly string[] {
  const found = new Set<string>(testCase.meta().missingPrograms);
  for (let parent = testCase.parent; parent.type === "suite"; parent = parent.parent) {
    for (const program of parent.meta().missingPrograms ?? []) found.add(program);
  }
  return [...found];
}
