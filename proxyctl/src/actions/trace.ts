/** Runs `proxyctl trace`: shows what a proxy does with a request, step by step. */
import { randomUUID } from "node:crypto";
import { createReadStream } from "node:fs";
import type { ConfigDump } from "@gatewayproxy/admin-api/config-dump";
import { newSpanId } from "@gatewayproxy/runtime/ids";
import { renderTraceparent, traceparentHeader } from "@gatewayproxy/runtime/trace-context";
import type { AdminClient } from "../admin/admin-client.ts";
import { CommandError, exitCodes, textOf } from "../command-error.ts";
import type { ConnectOptions } from "../options/connect-options.ts";
import type { TraceReference } from "../options/trace-id-option.ts";
import type { Io } from "../io.ts";
import { isInteractive } from "../terminal/screen.ts";
import { followTrace } from "../trace/follow.ts";
import { followTraceId } from "../trace/follow-trace-id.ts";
import { readSavedTrace } from "../trace/read-trace.ts";
import { parseRequest, type TraceRequest } from "../trace/request.ts";
import { lineSink, rawSink, screenSink, type TraceSink } from "../trace/sinks.ts";
import { clientVersion } from "../version.ts";
import { explainDecision } from "../views/explain.ts";
import { narrowToGateway } from "../views/narrow.ts";
import { findAdmins, gatewayNameOf } from "./find-admins.ts";

/** Options of `proxyctl trace`. */
export interface TraceOptions extends ConnectOptions {
  /** `--port` of the listener that gets the request, from 1 to 65535; absent: that of the URL. */
  readonly port?: number;
  /** `--expression`: a CEL condition; the next request that meets it is traced. */
  readonly expression?: string;
  /** `--trace-id`: the trace of the request. */
  readonly traceId?: TraceReference;
  /** `--raw`: prints the events as JSON Lines. */
  readonly raw?: true;
  /** `--plain`: prints lines, on a terminal too. */
  readonly plain?: true;
  /** `--file`: shows a trace saved with `--raw`, `-` for standard input. */
  readonly file?: string;
}

/** @param requestArgs the arguments after `--`. */
export async function trace(
  resource: string | undefined,
  options: TraceOptions,
  requestArgs: readonly string[] | undefined,
  io: Io,
): Promise<void> {
  if (options.file === undefined) {
    await traceLive(resource, options, requestArgs, io);
  } else if (resource === undefined && requestArgs === undefined) {
    await showSaved(options.file, options, io);
  } else {
    throw new CommandError({
      message: "--file shows a saved trace, but a proxy or a request is named too",
      advice: ["leave out one of them"],
      exitCode: exitCodes.usage,
    });
  }
}

async function traceLive(
  resource: string | undefined,
  options: TraceOptions,
  requestArgs: readonly string[] | undefined,
  io: Io,
): Promise<void> {
  const request = await parseRequestArgs(options, requestArgs);
  if (request === undefined && options.traceId !== undefined) {
    await traceById(resource, options, options.traceId, io);
    return;
  }
  const [admin] = await findAdmins(resource, options);
  const ownRequest = request === undefined ? undefined : await withPort(request, resource, options, admin);
  const { name } = admin.connector;
  const stop = new AbortController();
  const subject =
    ownRequest === undefined ? "the next request" : `${ownRequest.request.method} ${ownRequest.request.url.href}`;
  const sink = withExitCode(
    sinkFor(options, io, `${resource ?? name}   ${subject}`, () => stop.abort()),
    io,
  );
  if (ownRequest === undefined) io.stderr.write(`watching ${name} for ${subject}\n`);
  try {
    await followTrace({
      admin,
      sink,
      clock: io.clock,
      expression: options.expression,
      signal: AbortSignal.any([io.signal, stop.signal]),
      ...(ownRequest === undefined ? {} : { ownRequest }),
    });
    await sink.end();
  } catch (error) {
    // The user has quit before the end, which is not an error.
    if (!stop.signal.aborted) throw error;
  } finally {
    sink.close();
  }
}

/**
 * Explains the kept denials of a trace, or traces its next request. Each replica keeps its own denials, and any may get
 * the request, so all are asked.
 */
async function traceById(
  resource: string | undefined,
  options: TraceOptions,
  { traceId }: TraceReference,
  io: Io,
): Promise<void> {
  const admins = await findAdmins(resource, { ...options, ...(options.pod === undefined ? { allPods: true } : {}) });
  const names = admins.map(({ connector }) => connector.name).join(", ");
  const found = await Promise.all(
    admins.map(async (admin) => {
      const { decisions } = await admin.decisionsOfTrace(traceId);
      return decisions.map((decision) => ({ decision, from: admin.connector.name }));
    }),
  );
  const denials = found.flat().toSorted((a, b) => (a.decision.at < b.decision.at ? -1 : 1));
  if (denials.length > 0) {
    io.stdout.write(denials.map(({ decision, from }) => explainDecision(decision, from)).join("\n"));
    io.setExitCode(exitCodes.no);
    return;
  }
  const stop = new AbortController();
  const subject = `the next request of trace ${traceId}`;
  const sink = withExitCode(
    sinkFor(options, io, `${resource ?? names}   ${subject}`, () => stop.abort()),
    io,
  );
  io.stderr.write(`no denial of trace ${traceId} is kept; watching ${names} for its next request\n`);
  try {
    const signal = AbortSignal.any([io.signal, stop.signal]);
    await followTraceId({ admins, traceId, expression: options.expression, sink, signal });
    await sink.end();
  } catch (error) {
    // The user has quit before the end, which is not an error.
    if (!stop.signal.aborted) throw error;
  } finally {
    sink.close();
  }
}

/** Sets the exit code for "no" if a limit denied the request. */
function withExitCode(sink: TraceSink, { setExitCode }: Io): TraceSink {
  return {
    ...sink,
    event(event, text) {
      if (event.message.type === "policy" && event.message.decision === "denied") setExitCode(exitCodes.no);
      sink.event(event, text);
    },
  };
}

async function parseRequestArgs(
  { port, traceId }: TraceOptions,
  args: readonly string[] | undefined,
): Promise<TraceRequest | undefined> {
  if (args !== undefined && args.length > 0) {
    const request = await parseRequest(args, { userAgent: `proxyctl/${clientVersion}`, requestId: randomUUID() });
    return traceId === undefined ? request : withTrace(request, traceId);
  }
  if (port === undefined) return undefined;
  throw new CommandError({
    message: "--port is the port of a request, but there is no request",
    advice: ["write the request after --, as in: proxyctl trace gateway/web --port 8080 -- http://HOST/PATH"],
    exitCode: exitCodes.usage,
  });
}

/** Makes the request part of a trace. Without a `traceparent`, its parent is a new span, which is not exported. */
function withTrace(request: TraceRequest, { traceId, parent }: TraceReference): TraceRequest {
  if (request.headers.some(([name]) => name.toLowerCase() === traceparentHeader)) {
    throw new CommandError({
      message: "--trace-id and the header traceparent both name the trace of the request",
      advice: ["leave out one of them"],
      exitCode: exitCodes.usage,
    });
  }
  const traceparent = renderTraceparent(traceId, parent?.spanId ?? newSpanId(), parent?.isSampled ?? true);
  return { ...request, headers: [...request.headers, [traceparentHeader, traceparent]] };
}

/** Adds the port to the request: by default that of the only listener for plain HTTP. */
async function withPort(
  request: TraceRequest,
  resource: string | undefined,
  options: TraceOptions,
  admin: AdminClient,
): Promise<{ readonly request: TraceRequest; readonly port: number }> {
  const knownPort = options.port ?? request.port;
  if (knownPort !== undefined) return { request, port: knownPort };
  const gateway = gatewayNameOf(resource, options);
  const whole = await admin.configDump();
  const { binds } = gateway === undefined || options.address === undefined ? whole : narrowToGateway(whole, gateway);
  const plain = binds.filter(({ isOpen, listeners }) => isOpen && listeners.some(isPlain));
  const [first, ...others] = plain;
  if (first !== undefined && others.length === 0) return { request, port: first.port };
  const found = first === undefined ? "none" : plain.map(({ port }) => port).join(", ");
  throw new CommandError({
    message: `send ${request.url.pathname}: it needs a port; open listeners for plain HTTP have ${found}`,
    advice: ["name one: --port PORT", "or write the whole URL: http://HOST:PORT/PATH"],
    exitCode: exitCodes.usage,
  });
}

function isPlain({ protocol }: ConfigDump["binds"][number]["listeners"][number]): boolean {
  return protocol === "HTTP";
}

function sinkFor(options: TraceOptions, io: Io, title: string, onQuit: () => void): TraceSink {
  if (options.raw === true) return rawSink(io);
  return options.plain !== true && isInteractive(io) ? screenSink(io, title, onQuit) : lineSink(io);
}

async function showSaved(file: string, options: TraceOptions, io: Io): Promise<void> {
  const isStdin = file === "-";
  // Standard input is a keyboard only if the trace does not come from it.
  const shown = isStdin && options.raw !== true ? { ...options, plain: true as const } : options;
  const sink = withExitCode(
    sinkFor(shown, io, file, () => undefined),
    io,
  );
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
