/** The world as a command sees it; tests give it another. */
import type { Readable } from "node:stream";
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { ExitCode } from "./command-error.ts";
import type { OutputStream, TerminalOutput } from "./terminal/terminal-output.ts";

/** Standard input; the mode of a terminal can be set. */
export type Input = Readable & {
  readonly isTTY?: boolean;
  setRawMode?: (isRaw: boolean) => unknown;
};

export interface Io {
  readonly stdin: Input;
  /** Answers, and nothing else, so that they can be piped. */
  readonly stdout: TerminalOutput;
  /** Everything said beside the answer. */
  readonly stderr: TerminalOutput;
  readonly env: NodeJS.ProcessEnv;
  readonly clock: Clock;
  /** Aborted when the user wants to stop. */
  readonly signal: AbortSignal;
  /** Tells how the command went, where that is not plainly `done`. */
  readonly setExitCode: (code: ExitCode) => void;
}

/** What the process gives to a command line. */
export interface World extends Omit<Io, "stdout" | "stderr" | "setExitCode"> {
  readonly stdout: OutputStream;
  readonly stderr: OutputStream;
}
