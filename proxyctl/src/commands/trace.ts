/** `proxyctl trace`: what a proxy does with a request, step by step. */
import { randomUUID } from "node:crypto";
import { createReadStream } from "node:fs";
import { type Command, Option } from "commander";
import { AdminClient } from "../admin/admin-client.ts";
import { CommandError, exitCodes, textOf } from "../command-error.ts";
import type { Io } from "../io.ts";
import { isInteractive } from "../terminal/screen.ts";
import { followTrace } from "../trace/follow.ts";
import { readSavedTrace } from "../trace/read-trace.ts";
import { parseRequest, type TraceRequest } from "../trace/request.ts";
import { lineSink, rawSink, screenSink, type TraceSink } from "../trace/sinks.ts";
import { addReachOptions, findReaches, parsePort, type ReachOptions } from "./reach-options.ts";
import { clientVersion } from "./version.ts";

interface TraceOptions extends ReachOptions {
  readonly port?: number;
  readonly expression?: string;
  readonly raw?: true;
  readonly plain?: true;
  readonly file?: string;
}

/** Adds `trace`; `requestArgs` are what stands behind `--`. */
export function addTraceCommand(program: Command, io: Io, requestArgs: readonly string[] | undefined): void {
  addReachOptions(
    program
      .command("trace [resource]")
      .usage("[options] [resource] [-- [-X METHOD] [-H 'NAME: VALUE'] [-d BODY] URL]")
      .description("Follow a request through a proxy: the one behind --, or the next that comes"),
    { allPods: false },
  )
    .option("-p, --port <port>", "port of the listener that gets the request (default: that of the URL)", parsePort)
    .option("--expression <cel>", "watch for a request for which this is true, instead of the next")
    .addOption(new Option("--raw", "print the events as JSON Lines").conflicts("plain"))
    .option("--plain", "print lines, on a terminal too")
    .addOption(
      new Option("-f, --file <file>", "show what --raw has saved, - for standard input").conflicts([
        "address",
        "port",
        "expression",
      ]),
    )
    .action(async (resource: string | undefined, options: TraceOptions) => {
      if (options.file === undefined) await trace(resource, options, requestArgs, io);
      else await showSaved(options.file, options, io);
    });
}

async function trace(
  resource: string | undefined,
  options: TraceOptions,
  requestArgs: readonly string[] | undefined,
  io: Io,
): Promise<void> {
  const own = await ownRequest(options, requestArgs);
  const [reach] = await findReaches(resource, options);
  if (reach === undefined) throw new Error("no proxy was found, and nobody said so");
  const stop = new AbortController();
  const what = own === undefined ? "the next request" : `${own.request.method} ${own.request.url.href}`;
  const sink = sinkFor(options, io, `${resource ?? reach.name}   ${what}`, () => stop.abort());
  if (own === undefined) io.stderr.write(`watching ${reach.name} for ${what}\n`);
  try {
    await followTrace({
      admin: new AdminClient(reach),
      sink,
      clock: io.clock,
      expression: options.expression,
      signal: AbortSignal.any([io.signal, stop.signal]),
      ...(own === undefined ? {} : { own }),
    });
    await sink.end();
  } catch (error) {
    // The user has quit before the end, which is no fault.
    if (!stop.signal.aborted) throw error;
  } finally {
    sink.close();
  }
}

async function ownRequest(
  { port }: TraceOptions,
  args: readonly string[] | undefined,
): Promise<{ readonly request: TraceRequest; readonly port: number } | undefined> {
  if (args === undefined || args.length === 0) {
    if (port === undefined) return undefined;
    throw new CommandError({
      message: "--port says where a request goes, and there is none",
      advice: ["write it behind --, as in: proxyctl trace gateway/web --port 8080 -- http://HOST/PATH"],
      exitCode: exitCodes.usage,
    });
  }
  const request = await parseRequest(args, {
    userAgent: `proxyctl/${clientVersion()}`,
    requestId: randomUUID(),
  });
  const { protocol, port: urlPort } = request.url;
  const implied = urlPort !== "" ? Number(urlPort) : protocol === "https:" ? 443 : 80;
  return { request, port: port ?? implied };
}

function sinkFor(options: TraceOptions, io: Io, title: string, onQuit: () => void): TraceSink {
  if (options.raw === true) return rawSink(io);
  return options.plain !== true && isInteractive(io) ? screenSink(io, title, onQuit) : lineSink(io);
}

async function showSaved(file: string, options: TraceOptions, io: Io): Promise<void> {
  const isStdin = file === "-";
  // Standard input is the keyboard's only where the trace does not come by it.
  const shown = isStdin && options.raw !== true ? { ...options, plain: true as const } : options;
  const sink = sinkFor(shown, io, file, () => undefined);
  try {
    for await (const item of readSavedTrace(isStdin ? io.stdin : createReadStream(file))) {
      if (item.kind === "event") sink.event(item.event, item.text);
    }
    await sink.end();
  } catch (error) {
    if (error instanceof CommandError) throw error;
    throw new CommandError({
      message: `read the trace ${file}: ${textOf(error)}`,
      advice: ["save one with: proxyctl trace --raw … > FILE"],
      cause: error,
    });
  } finally {
    sink.close();
  }
}
