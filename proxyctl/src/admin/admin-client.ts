/**
 * Client of the admin server. Each response is validated by the schema that the server itself is built from. Error
 * responses and invalid ones become a `CommandError` with advice.
 */
import type { IncomingMessage } from "node:http";
import { type ConfigDump, configDumpSchema } from "@gatewayproxy/admin-api/config-dump";
import { type Decisions, decisionsSchema } from "@gatewayproxy/admin-api/decisions";
import { adminErrorSchema } from "@gatewayproxy/admin-api/error";
import { type Limits, type LimitsReset, limitsResetSchema, limitsSchema } from "@gatewayproxy/admin-api/limits";
import type * as z from "zod";
import { CommandError, exitCodes, textOf } from "../command-error.ts";
import { boundedBody, exchange, mebibyte, readBody } from "./exchange.ts";
import type { ProxyConnector } from "./proxy-connector.ts";

/** A request to an endpoint. */
interface Call {
  /** Default GET. */
  readonly method?: "GET" | "POST";
  readonly path: string;
  readonly query?: Readonly<Record<string, string | undefined>>;
  readonly signal?: AbortSignal | undefined;
}

/** The request to trace; absent members select any. */
export interface TraceQuery {
  /** A condition in CEL. */
  readonly expression?: string | undefined;
  /** The trace that the request belongs to. */
  readonly traceId?: string | undefined;
}

/** The counters to reset; absent members select all. */
export interface ResetQuery {
  /** `NAME` or `NAMESPACE/NAME`. */
  readonly policy: string;
  /** Name or index. */
  readonly entry?: string | undefined;
  readonly key?: string | undefined;
}

/**
 * The maximum sizes of responses in bytes: far above the sizes that a proxy sends, and below the memory of this
 * machine. Another server at the address could send without end.
 */
const maxBytes = {
  /** About 2 KiB for each route. */
  configDump: 256 * mebibyte,
  /** A heap profile grows with the number of allocation sites. */
  profile: 256 * mebibyte,
  limits: 64 * mebibyte,
  /** All events of one request; an event of the request is as large as its head. */
  trace: 16 * mebibyte,
  decisions: 16 * mebibyte,
  logging: mebibyte,
  error: mebibyte,
} as const;

/**
 * The timeout of a response that is not a stream: usually milliseconds, seconds with tens of thousands of resources.
 */
const defaultTimeoutMs = 20_000;

/** Client of one admin server. */
export class AdminClient {
  readonly connector: ProxyConnector;
  readonly #timeoutMs: number;

  /** @param timeoutMs the longest wait for a connection or a response, in milliseconds. */
  constructor(connector: ProxyConnector, timeoutMs = defaultTimeoutMs) {
    this.connector = connector;
    this.#timeoutMs = timeoutMs;
  }

  /** Returns the text of the dump; `parseConfigDump` parses it. */
  async configDumpText(): Promise<string> {
    return await this.#text({ path: "/config_dump" }, maxBytes.configDump);
  }

  async configDump(): Promise<ConfigDump> {
    return this.#parse("/config_dump", await this.configDumpText(), configDumpSchema);
  }

  async limits(): Promise<Limits> {
    return this.#parse("/limits", await this.#text({ path: "/limits" }, maxBytes.limits), limitsSchema);
  }

  /** Resets the counters of a policy, of one of its entries, or of one value of its key. */
  async resetLimits(query: ResetQuery): Promise<LimitsReset> {
    const path = "/limits/reset";
    const text = await this.#text({ method: "POST", path, query: { ...query } }, maxBytes.limits);
    return this.#parse(path, text, limitsResetSchema);
  }

  /** Returns what is kept of the denial with this `x-request-id`. */
  decisions(id: string): Promise<Decisions> {
    return this.#decisions({ id });
  }

  /** Returns what is kept of the denials of requests of a trace. */
  decisionsOfTrace(traceId: string): Promise<Decisions> {
    return this.#decisions({ trace_id: traceId });
  }

  /** The denials of a client that the proxy still knows, by its address. */
  decisionsOfSource(source: string): Promise<Decisions> {
    return this.#decisions({ source });
  }

  async #decisions(query: Readonly<Record<string, string>>): Promise<Decisions> {
    const path = "/limits/decisions";
    return this.#parse(path, await this.#text({ path, query }, maxBytes.decisions), decisionsSchema);
  }

  /** Returns the current log filter. */
  async logLevel(): Promise<string> {
    return directivesIn(await this.#text({ path: "/logging" }, maxBytes.logging));
  }

  /** Returns one line per module: name, level, description. */
  async logModules(): Promise<readonly string[]> {
    const [, ...lines] = (await this.#text({ path: "/logging" }, maxBytes.logging)).split("\n");
    return lines.filter((line) => line !== "");
  }

  /** Sets a log filter, or resets it to that of the start if undefined. Resolves with the filter then in effect. */
  async setLogLevel(level: string | undefined): Promise<string> {
    const query = level === undefined ? { reset: "true" } : { level };
    return directivesIn(await this.#text({ method: "POST", path: "/logging", query }, maxBytes.logging));
  }

  /** Returns a gzipped pprof profile; `seconds` applies to `cpu`. */
  async profile(kind: "cpu" | "heap", seconds: number, signal: AbortSignal): Promise<Buffer> {
    const call: Call =
      kind === "heap"
        ? { path: "/debug/pprof/heap", signal }
        : { path: "/debug/pprof/profile", query: { seconds: String(seconds) }, signal };
    return await this.#body(call, maxBytes.profile);
  }

  /** Returns the event stream of the next request. Its first chunk says that the server is ready to trace. */
  async trace({ expression, traceId }: TraceQuery, signal: AbortSignal): Promise<AsyncIterable<Buffer>> {
    const path = "/debug/trace";
    const query = { expression, trace_id: traceId };
    return this.#chunks(path, await this.#call({ path, query, signal }), signal);
  }

  async *#chunks(
    path: string,
    response: IncomingMessage,
    signal: AbortSignal,
  ): AsyncGenerator<Buffer, void, undefined> {
    try {
      yield* boundedBody(response, maxBytes.trace);
    } catch (error) {
      throw signal.aborted ? error : this.#failure(path, error);
    }
  }

  async #text(call: Call, limit: number): Promise<string> {
    const timeoutSignal = AbortSignal.timeout(this.#timeoutMs);
    const response = this.#body({ ...call, signal: timeoutSignal }, limit);
    return (await Promise.race([response, this.#timeoutError(call.path, timeoutSignal)])).toString("utf8");
  }

  async #body(call: Call, limit: number): Promise<Buffer> {
    const response = await this.#call(call);
    try {
      return await readBody(response, limit);
    } catch (error) {
      throw this.#failure(call.path, error);
    }
  }

  #failure(path: string, error: unknown): CommandError {
    return new CommandError({
      message: `request ${path} from ${this.connector.name}: ${textOf(error)}`,
      advice: ["check that the address is of an admin server, and that the proxy has not just ended"],
      cause: error,
    });
  }

  #timeoutError(path: string, timeoutSignal: AbortSignal): Promise<never> {
    return new Promise((_, reject) => {
      const onTimeout = (): void => {
        const seconds = this.#timeoutMs / 1_000;
        const message = `request ${path} from ${this.connector.name}: no response within ${seconds} s`;
        const advice = [
          "the proxy's main thread is busy, or the network drops the connection: see its log, and try again",
        ];
        reject(new CommandError({ message, advice }));
      };
      timeoutSignal.addEventListener("abort", onTimeout, { once: true });
    });
  }

  async #call({ method = "GET", path, query = {}, signal }: Call): Promise<IncomingMessage> {
    const { connector } = this;
    const parameters = Object.entries(query).filter((entry): entry is [string, string] => entry[1] !== undefined);
    const search = parameters.length === 0 ? "" : `?${new URLSearchParams(parameters).toString()}`;
    const attempt = `request ${path} from ${connector.name}`;
    try {
      const connection = await connector.connect(connector.adminPort);
      const response = await exchange(connection, {
        method,
        path: `${path}${search}`,
        headers: [
          ["host", connector.adminHost],
          ...(connector.adminToken === undefined ? [] : [["authorization", `Bearer ${connector.adminToken}`] as const]),
        ],
        signal,
      });
      if (response.statusCode === 200) return response;
      throw responseError(
        attempt,
        path,
        response.statusCode ?? 0,
        (await readBody(response, maxBytes.error)).toString("utf8"),
      );
    } catch (error) {
      if (error instanceof CommandError) throw error;
      throw this.#failure(path, error);
    }
  }

  #parse<T>(path: string, text: string, schema: z.ZodType<T>): T {
    return parseResponse(`read ${path} of ${this.connector.name}`, text, schema);
  }
}

/** Parses a JSON response, live or saved. `attempt` starts the message of an error. */
export function parseResponse<T>(attempt: string, text: string, schema: z.ZodType<T>): T {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (error) {
    throw new CommandError({
      message: `${attempt}: it is not JSON: ${textOf(error)}`,
      advice: ["check that this is a response of a proxy's admin server"],
      cause: error,
    });
  }
  const parsed = schema.safeParse(json);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw new CommandError({
    message: `${attempt}: its field ${issue?.path.join(".") || "(root)"} is not as expected: ${issue?.message ?? ""}`,
    advice: ["proxy and proxyctl are of different versions, see `proxyctl version`: update the older one"],
  });
}

/** Parses a dump, live or saved. */
export function parseConfigDump(attempt: string, text: string): ConfigDump {
  return parseResponse(attempt, text, configDumpSchema);
}

function responseError(attempt: string, path: string, status: number, body: string): CommandError {
  if (status === 404) {
    return new CommandError({
      message: `${attempt}: it has no such endpoint (404)`,
      advice: [`the proxy is older than this proxyctl, or no admin server listens there: update it to get ${path}`],
    });
  }
  const error = errorIn(body);
  return new CommandError({
    message: `${attempt}: ${error?.error ?? `it responded with ${status}`}`,
    advice: error === undefined ? [] : [error.hint],
    // A 400 response reports an error in the user's arguments.
    exitCode: error !== undefined && status === 400 ? exitCodes.usage : exitCodes.failed,
  });
}

function errorIn(body: string): { readonly error: string; readonly hint: string } | undefined {
  try {
    return adminErrorSchema.parse(JSON.parse(body));
  } catch {
    // The response does not come from an admin server of this project: only the status is known.
    return undefined;
  }
}

function directivesIn(text: string): string {
  return (text.split("\n", 1)[0] ?? "").replace(/^current log level is /, "");
}
