#!/usr/bin/env node
/** The program `proxyctl`. The only module that reads and ends the process. */
import { systemClock } from "@gatewayproxy/runtime/clock";
import { runProxyctl } from "./app/program.ts";
import { exitCodes, renderFailure } from "./command-error.ts";

const stopping = new AbortController();
process.once("SIGINT", () => stopping.abort());
process.once("SIGTERM", () => stopping.abort());
// `proxyctl … | head` closes the pipe early, which is not an error.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code === "EPIPE") process.exit(exitCodes.done);
  process.stderr.write(renderFailure({ message: `write the output: ${error.message}`, advice: [] }));
  process.exit(exitCodes.failed);
});

process.exitCode = await runProxyctl(process.argv.slice(2), {
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  env: process.env,
  clock: systemClock,
  signal: stopping.signal,
});
// Connections that are no longer used must not keep the process alive.
setTimeout(() => process.exit(), 1_000).unref();
