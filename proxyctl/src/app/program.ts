/** The command tree, and the mapping of a command's outcome to an exit code and a message. */
import { Command, CommanderError } from "commander";
import { CommandError, type ExitCode, exitCodes, renderFailure, textOf } from "../command-error.ts";
import { addCompletionCommand } from "../commands/completion.ts";
import { addConfigCommand } from "../commands/config.ts";
import { addConvertCommand } from "../commands/convert.ts";
import { addDoctorCommand } from "../commands/doctor.ts";
import { addLimitsCommand } from "../commands/limits.ts";
import { addLoggingCommand } from "../commands/logging.ts";
import { addProfileCommand } from "../commands/profile.ts";
import { addTraceCommand } from "../commands/trace.ts";
import { addValidateCommand } from "../commands/validate.ts";
import { formatHelp, withExamples } from "../commands/examples.ts";
import { addVersionCommand } from "../commands/version.ts";
import type { Io, World } from "../io.ts";
import { TerminalOutput } from "../terminal/terminal-output.ts";
import { clientVersion } from "../version.ts";

const helpTail = `
A resource is gateway/NAME, found by the kubeconfig, or pod/NAME; without one the only Gateway of the namespace is meant.
Where there is no cluster, --address HOST:PORT names an admin server.

Exit codes: 0 done, 1 negative result (a problem was found, a request was denied), 2 failure, 64 wrong usage.
`;

/** Creates all commands. @param requestArgs the arguments after the first `--`; undefined if there is none. */
export function createProgram(io: Io, requestArgs?: readonly string[]): Command {
  const program = new Command("proxyctl")
    .description("Inspects gateway proxies: their configuration, the path of a request, the counters of limits.")
    .version(clientVersion, "-V, --version", "print the version of proxyctl")
    .helpOption("-h, --help", "show this text")
    .helpCommand("help [command]", "show the text of a command")
    .showSuggestionAfterError(true)
    .configureHelp({ formatHelp })
    .exitOverride()
    .configureOutput({
      writeOut: (text) => io.stdout.write(text),
      writeErr: (text) => io.stderr.write(text),
      getOutHelpWidth: () => io.stdout.columns ?? 100,
      getErrHelpWidth: () => io.stderr.columns ?? 100,
      getOutHasColors: () => false,
      getErrHasColors: () => false,
    })
    .addHelpText("after", helpTail);
  withExamples(
    program,
    "proxyctl doctor gateway/web",
    "proxyctl trace gateway/web --port 8080 -- http://chat.example.com/v1/models",
    "proxyctl config all --address :15000",
  );
  addConfigCommand(program, io);
  addTraceCommand(program, io, requestArgs);
  addLimitsCommand(program, io);
  addDoctorCommand(program, io);
  addValidateCommand(program, io);
  addConvertCommand(program, io);
  addLoggingCommand(program, io);
  addProfileCommand(program, io);
  addVersionCommand(program, io);
  addCompletionCommand(program, io);
  return program;
}

/** The environment of commands, whose outputs escape control characters. */
export function ioOf(world: World, setExitCode: Io["setExitCode"]): Io {
  const { stdout, stderr, ...rest } = world;
  return { ...rest, stdout: new TerminalOutput(stdout), stderr: new TerminalOutput(stderr), setExitCode };
}

/** Runs one command line, without the program's name. Never rejects. */
export async function runProxyctl(argv: readonly string[], world: World): Promise<ExitCode> {
  let exitCode: ExitCode = exitCodes.done;
  const io = ioOf(world, (code) => (exitCode = code));
  try {
    const { args, requestArgs } = splitAtDashes(argv);
    await Promise.race([createProgram(io, requestArgs).parseAsync(args, { from: "user" }), rejectOnInterrupt(io)]);
    return exitCode;
  } catch (error) {
    return reportError(error, io);
  }
}

/** The time that a command which handles the signal itself has to clean up, in ms. */
const interruptGraceMs = 500;

/**
 * Rejects when the user interrupts a command that does not end by itself, because the event that it waits for may never
 * occur.
 */
function rejectOnInterrupt({ signal, clock }: Pick<Io, "signal" | "clock">): Promise<never> {
  return new Promise((_, reject) => {
    const onAbort = (): void => void clock.setTimer(interruptGraceMs, () => reject(new Error("interrupted")));
    if (signal.aborted) onAbort();
    else signal.addEventListener("abort", onAbort, { once: true });
  });
}

/** Splits at `--`: the request after it uses curl's syntax. Only `trace` takes one. */
function splitAtDashes(argv: readonly string[]) {
  const dashes = argv[0] === "trace" ? argv.indexOf("--") : -1;
  if (dashes === -1) return { args: argv, requestArgs: undefined };
  return { args: argv.slice(0, dashes), requestArgs: argv.slice(dashes + 1) };
}

function reportError(error: unknown, io: Io): ExitCode {
  // Commander has written its own message by now. Help that the user asked for is not an error.
  if (error instanceof CommanderError) return error.exitCode === 0 ? exitCodes.done : exitCodes.usage;
  if (io.signal.aborted) return exitCodes.interrupted;
  if (error instanceof CommandError) {
    io.stderr.write(renderFailure(error));
    return error.exitCode;
  }
  io.stderr.write(
    renderFailure({
      message: `internal error of proxyctl: ${textOf(error)}`,
      advice: ["please report it with the command line"],
    }),
  );
  return exitCodes.failed;
}
