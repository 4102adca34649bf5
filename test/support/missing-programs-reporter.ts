/**
 * Reports, at the end of a run, which tests were skipped because a program was missing; `describe-with.ts` marks them.
 */
import type { Reporter, TestCase, TestModule } from "vitest/node";
import { installCommand } from "./programs.ts";

/** Ends a run with one line: the missing programs, and the number of skipped tests. */
export class MissingProgramsReporter implements Reporter {
  readonly #write: (line: string) => void;
  readonly #command: string;

  /** @param command installs the programs. */
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
    this.#write(
      `\n!! ${skipped} tests SKIPPED because of missing programs: ${names}. Run ${this.#command} to run them too.\n\n`,
    );
  }
}

/** The missing programs that a skipped test needs. The mark is on a suite; the test may be in a suite below it. */
export function missingProgramsOf(testCase: TestCase): readonly string[] {
  const found = new Set<string>(testCase.meta().missingPrograms);
  for (let parent = testCase.parent; parent.type === "suite"; parent = parent.parent) {
    for (const program of parent.meta().missingPrograms ?? []) found.add(program);
  }
  return [...found];
}
