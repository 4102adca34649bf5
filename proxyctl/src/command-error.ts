/** The one way in which a command fails: in words that say what was tried, what was found and what to do. */

/**
 * Exit codes, as `kubectl diff` and `grep` have them: a script can tell an answer of "no" from no answer.
 * 64 is EX_USAGE of sysexits.h, as in the other programs of this project.
 */
export const exitCodes = {
  done: 0,
  /** The command did its work and the answer is no: a problem was found, a request was denied. */
  no: 1,
  /** The command could not do its work. */
  failed: 2,
  usage: 64,
  /** Stopped by Ctrl-C. */
  interrupted: 130,
} as const;

export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes];

/** What `CommandError` is made of. */
export interface Failure {
  /** What was tried and what was found: `read the pods of gateway/web: …`; lower case, no full stop. */
  readonly message: string;
  /** What to do, one line each. */
  readonly advice: readonly string[];
  readonly exitCode?: ExitCode;
  readonly cause?: unknown;
}

/** Ends a command; shown without a stack. */
export class CommandError extends Error {
  readonly advice: readonly string[];
  readonly exitCode: ExitCode;

  constructor({ message, advice, exitCode = exitCodes.failed, cause }: Failure) {
    super(message, { cause });
    this.name = "CommandError";
    this.advice = advice;
    this.exitCode = exitCode;
  }
}

/** For standard error: `error: …`, and below it what to do. Lines that a text holds are indented, so that none looks like ours. */
export function renderFailure({ message, advice }: Pick<Failure, "message" | "advice">): string {
  const lines = [`error: ${message}`, ...advice.map((line) => `  ${line}`)];
  return lines.map((line) => `${line.replaceAll(/\n\s*/g, "\n  ")}\n`).join("");
}

/** What an unknown thrown value says of itself, on one line. */
export function textOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  // A failed connection attempt to several addresses has its words in the parts only.
  const text = error instanceof AggregateError ? error.errors.map(textOf).join("; ") : error.message;
  return text.replaceAll(/\s*\n\s*/g, " ");
}
