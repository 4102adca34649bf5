/** The environment of a command; tests provide another. */
import type { Readable } from "node:stream";
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { ExitCode } from "./command-error.ts";
import type { OutputStream, TerminalOutput } from "./terminal/terminal-output.ts";

/** Standard input; the mode of a terminal can be set. */
export type Input = Readable & {
  readonly isTTY?: boolean;
  setRawMode?: (isRaw: boolean) => unknown;
};

/** The environment of a command. */
export interface Io {
  readonly stdin: Input;
  /** For results only, so that they can be piped. */
  readonly stdout: TerminalOutput;
  /** For all other messages. */
  readonly stderr: TerminalOutput;
  readonly env: NodeJS.ProcessEnv;
  readonly clock: Clock;
  /** Aborts when the user wants to stop. */
  readonly signal: AbortSignal;
  /** Sets the exit code, if it is not `done`. */
  readonly setExitCode: (code: ExitCode) => void;
}

/** The environment that the process provides to a command line. */
export interface World extends Omit<Io, "stdout" | "stderr" | "setExitCode"> {
  readonly stdout: OutputStream;
  readonly stderr: OutputStream;
}
