/** Errors of commands: what was attempted, what was found and what to do. */

/**
 * Exit codes as in `kubectl diff` and `grep`: a script can distinguish the result "no" from a failure. 64 is EX_USAGE
 * of sysexits.h, as in the other programs of this project.
 */
export const exitCodes = {
  done: 0,
  /** The command succeeded and the result is negative: a problem was found, or a request was denied. */
  no: 1,
  /** The command failed. */
  failed: 2,
  usage: 64,
  /** Interrupted by Ctrl-C. */
  interrupted: 130,
} as const;

/** An exit code of proxyctl. */
export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes];

/** The parts of a `CommandError`. */
export interface Failure {
  /** The attempt and what was found: `read the pods of gateway/web: …`; lower case, no full stop. */
  readonly message: string;
  /** What to do, one line each. */
  readonly advice: readonly string[];
  readonly exitCode?: ExitCode;
  readonly cause?: unknown;
}

/** An error that ends a command and is shown without a stack. */
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

/**
 * Renders `error: …` for standard error, with the advice below. Lines after a line break are indented, so that no such
 * line looks like output of proxyctl.
 */
export function renderFailure({ message, advice }: Pick<Failure, "message" | "advice">): string {
  const lines = [`error: ${message}`, ...advice.map((line) => `  ${line}`)];
  return lines.map((line) => `${line.replaceAll(/\n\s*/g, "\n  ")}\n`).join("");
}

/** Returns the message of a thrown value, on one line. */
export function textOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  // The error of a connection attempt to several addresses has messages only in its parts.
  const text = error instanceof AggregateError ? error.errors.map(textOf).join("; ") : error.message;
  return text.replaceAll(/\s*\n\s*/g, " ");
}
