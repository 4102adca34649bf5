/**
 * Log lines of single requests, at debug and trace. The request path checks `Tracer.isWatching` once per request, and
 * only a logged request has `RequestLines`.
 */
import type { TraceMessage } from "@gatewayproxy/admin-api/trace-event";
import type { Logger } from "@gatewayproxy/runtime/log";
import { redactHeaders } from "@gatewayproxy/runtime/redaction";
import type { RequestRecord } from "./request-record.ts";

/** The loggers of the modules that log single requests, by the last part of the module name. */
export interface RequestLoggers {
  readonly access: Logger;
  readonly routing: Logger;
  readonly ratelimit: Logger;
  readonly upstream: Logger;
  readonly server: Logger;
}

/** What each line of a request says about it. */
export type LoggedRequest = Pick<RequestRecord, "requestId" | "route"> &
  Partial<Pick<RequestRecord, "traceId" | "spanId">>;

/**
 * Adds the ids of the request and of its span and, once it is known, its route to each line. Values from clients must
 * be redacted before.
 */
export class RequestLogger {
  readonly #logger: Logger;
  readonly #record: LoggedRequest;

  constructor(logger: Logger, record: LoggedRequest) {
    this.#logger = logger;
    this.#record = record;
  }

  /** Whether fields that are expensive to compute are logged. */
  get isTracing(): boolean {
    return this.#logger.isLevelEnabled("trace");
  }

  debug(fields: object, message: string): void {
    this.#logger.debug(this.#withRequest(fields), message);
  }

  trace(fields: object, message: string): void {
    this.#logger.trace(this.#withRequest(fields), message);
  }

  #withRequest(fields: object): object {
    const { requestId, traceId, spanId, route } = this.#record;
    const trace = traceId !== undefined && { trace_id: traceId, span_id: spanId };
    return { requestId, ...trace, ...(route !== undefined && { route }), ...fields };
  }
}

/** The loggers of one request. */
export type RequestLines = Readonly<Record<keyof RequestLoggers, RequestLogger>>;

/** Creates the loggers of requests. */
export class RequestLog {
  readonly #loggers: RequestLoggers;

  constructor(loggers: RequestLoggers) {
    this.#loggers = loggers;
  }

  /** Whether the filter lets any line of a request pass now. */
  get isOn(): boolean {
    return Object.values(this.#loggers).some((logger: Logger) => logger.isLevelEnabled("debug"));
  }

  linesOf(record: LoggedRequest): RequestLines {
    const { access, routing, ratelimit, upstream, server } = this.#loggers;
    return {
      access: new RequestLogger(access, record),
      routing: new RequestLogger(routing, record),
      ratelimit: new RequestLogger(ratelimit, record),
      upstream: new RequestLogger(upstream, record),
      server: new RequestLogger(server, record),
    };
  }
}

/**
 * Writes the lines of one event of a request.
 *
 * @param message with redacted values, as for trace subscribers.
 * @param durationMs duration of the event; 0 for an instant.
 */
export function logEvent(lines: RequestLines, message: TraceMessage, durationMs: number): void {
  // Undefined fields are not logged.
  const type = undefined;
  switch (message.type) {
    case "requestStarted": {
      const { path, headers, method } = message;
      const fields = { ...message, type, worker: undefined, headers: undefined, path: path.split("?", 1)[0] };
      lines.access.debug(fields, "request received");
      lines.access.trace({ method, path, headers: headersOf(headers) }, "request head received");
      return;
    }
    case "routeSelection":
      logRoute(lines, message);
      return;
    case "authentication": {
      const policies = message.policies.map(({ policy, target, mode }) => `${policy} ${target}: ${mode}`);
      lines.access.debug({ ...message, type, policies }, "authentication checked");
      return;
    }
    case "policySelection": {
      const policies = message.policies.map(
        ({ policy, target, local, global }) => `${policy} ${target}: ${local} local, ${global ? 1 : 0} global`,
      );
      lines.ratelimit.debug({ policies }, policies.length === 0 ? "no limit applies" : "limits apply");
      return;
    }
    case "policy":
      logLimit(lines, message, durationMs);
      return;
    case "backendCallStart":
      // `Forwarding` logs the selected endpoint, as it knows which ones were skipped.
      return;
    case "backendCallResult": {
      const { backend, target: endpoint, call, status, headers = [], error } = message;
      lines.upstream.debug(
        { backend, endpoint, call, status, error, durationMs },
        status === undefined ? "attempt failed" : "response received from the endpoint",
      );
      if (status !== undefined) {
        lines.upstream.trace({ endpoint, call, status, headers: headersOf(headers) }, "response head received");
      }
      return;
    }
    case "llmUsage":
      lines.ratelimit.debug(
        { ...message, type },
        message.uncounted === undefined ? "tokens counted" : "tokens not counted",
      );
      return;
    case "requestFinished":
      lines.server.debug({ ...message, type }, "request ended");
      return;
  }
}

/** The most rules without a match that are logged at debug; at trace all rules of the message are. */
const maxPassedOverAtDebug = 5;

function logRoute(lines: RequestLines, message: Extract<TraceMessage, { type: "routeSelection" }>): void {
  const { listener, route, rule, match, model, evaluatedRoutes, passedOver = [], passedOverMore = 0 } = message;
  // The names of thousands of routes are of no use, so only their number is logged.
  const fields = { listener, rule, match, model, routes: evaluatedRoutes.length };
  lines.routing.debug(fields, route === undefined ? "no route matched" : "route matched");
  if (passedOver.length === 0) return;
  const rules = lines.routing.isTracing ? passedOver : passedOver.slice(0, maxPassedOverAtDebug);
  const more = passedOverMore + passedOver.length - rules.length;
  lines.routing.debug({ rules, ...(more > 0 && { more }) }, "other rules do not match");
}

const limitPhrases = {
  allowed: "limit allowed",
  denied: "limit denied",
  shadowDenied: "limit would deny",
  notApplied: "limit does not apply",
} as const;

function logLimit(lines: RequestLines, message: Extract<TraceMessage, { type: "policy" }>, durationMs: number): void {
  const { kind, policy, target, mode, decision, entry, name, counts, by, service, limit, before, cost, after } =
    message;
  const key = message.key?.text;
  const { when, notApplied } = message;
  const figures = {
    ...(after !== undefined && limit !== undefined && { limit, used: after, remaining: Math.max(0, limit - after) }),
    ...(kind === "globalRateLimit" && { durationMs }),
  };
  lines.ratelimit.debug(
    { kind, policy, target, mode, entry, name, counts, key, when, by, service, notApplied, ...figures },
    limitPhrases[decision],
  );
  if (before !== undefined) {
    lines.ratelimit.trace({ policy, target, entry, key, limit, before, cost, after }, "counter read");
  }
}

/** Converts headers to one object, which is shorter to read; values of a repeated name are joined. */
function headersOf(headers: readonly { readonly name: string; readonly value: string }[]): Record<string, string> {
  const joined = new Map<string, string>();
  for (const { name, value } of headers) {
    const before = joined.get(name);
    joined.set(name, before === undefined ? value : `${before}, ${value}`);
  }
  return Object.fromEntries(joined);
}

/**
 * Converts the fields of a head for the log, with secrets redacted.
 *
 * @param rawHeaders names and values in turn.
 */
export function loggedHeaders(rawHeaders: readonly string[]): Record<string, string> {
  return headersOf(redactHeaders(rawHeaders));
}
