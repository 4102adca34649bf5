/** `proxyctl trace`: shows what a proxy does with a request, step by step. */
import { type Command, Option } from "commander";
import type { TraceOptions } from "../actions/trace.ts";
import type { Io } from "../io.ts";
import { actions } from "./actions.ts";
import { withExamples } from "./examples.ts";
import { addConnectOptions, clusterFlags, parsePort } from "../options/connect-options.ts";
import { parseTraceIdOption } from "../options/trace-id-option.ts";

/** Adds `trace`. @param requestArgs the arguments after `--`. */
export function addTraceCommand(program: Command, io: Io, requestArgs: readonly string[] | undefined): void {
  const trace = program
    .command("trace [resource]")
    .usage("[options] [resource] [-- [-X METHOD] [-H 'NAME: VALUE'] [-d BODY] URL]")
    .description("Trace a request through a proxy: the one after --, or the next that arrives");
  withExamples(
    addConnectOptions(trace, { allPods: false }),
    "proxyctl trace gateway/web --port 8080 -- http://chat.example.com/v1/models",
    "proxyctl trace --address :15000 -- -H 'x-user: ada' /v1/models",
    "proxyctl trace gateway/web --expression 'request.method == \"POST\"'",
    "proxyctl trace gateway/web --trace-id 4bf92f3577b34da6a3ce929d0e0e4736",
    "proxyctl trace --file trace.jsonl",
  )
    .option("-p, --port <port>", "port of the listener that gets the request (default: that of the URL)", parsePort)
    .option("--expression <cel>", "trace the next request for which this is true")
    .option(
      "--trace-id <id>",
      "explain kept denials of this trace, or trace its next request; with a request, send it as part of this trace (an id, or a traceparent)",
      parseTraceIdOption,
    )
    .addOption(new Option("--raw", "print the events as JSON Lines").conflicts("plain"))
    .option("--plain", "print lines, on a terminal too")
    .addOption(
      new Option("-f, --file <file>", "show a trace saved with --raw, - for standard input").conflicts([
        "address",
        "port",
        "expression",
        "traceId",
        "namespace",
        ...clusterFlags,
      ]),
    )
    .action(async (resource: string | undefined, options: TraceOptions) => {
      await (await actions.trace()).trace(resource, options, requestArgs, io);
    });
}
