/** What the runs of tests do for continuous integration and busy machines, alike in every vitest configuration. */

/**
 * A machine that many share may fail a test that waits for programs and sockets. Under CI it is tried once more, and
 * `scripts/test-totals.ts` names it. A property's counterexample is no accident, and stays a failure.
 */
export const retry = process.env["CI"] === undefined ? 0 : { count: 1, condition: /^(?!Property failed)/ };

/** A poll ends as soon as it sees what it waits for; it gives up only when that cannot be the machine any more. */
export const expectOptions = { poll: { timeout: 10_000 } };

/** A reporter that writes the totals of the run to the file that an environment variable names; none when it is not set. */
export function jsonReport(variable: string): ["json", { outputFile: string }][] {
  const outputFile = process.env[variable];
  return outputFile === undefined ? [] : [["json", { outputFile }]];
}
