/**
 * The admin server's endpoints as functions. Each answer is checked against the schema that the server itself is built
 * from; what refuses, or is not understood, becomes a `CommandError` that says what to do.
 */
import type { IncomingMessage } from "node:http";
import { type ConfigDump, configDumpSchema } from "@gatewayproxy/admin-api/config-dump";
import { type Decisions, decisionsSchema } from "@gatewayproxy/admin-api/decisions";
import { adminErrorSchema } from "@gatewayproxy/admin-api/error";
import { type Limits, limitsSchema } from "@gatewayproxy/admin-api/limits";
import type * as z from "zod";
import { CommandError, exitCodes, textOf } from "../command-error.ts";
import { boundedBody, exchange, mebibyte, readBody } from "./exchange.ts";
import type { Reach } from "./reach.ts";

/** A call to an endpoint. */
interface Call {
  /** Default GET. */
  readonly method?: "GET" | "POST";
  readonly path: string;
  readonly query?: Readonly<Record<string, string | undefined>>;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Longest answers, in bytes: far above what a proxy answers, and below what takes the memory of this machine. Whoever can
 * answer in place of a proxy could send without end.
 */
const maxBytes = {
  /** About 2 KiB for each route. */
  configDump: 256 * mebibyte,
  /** A heap profile grows with the places that allocate. */
  profile: 256 * mebibyte,
  limits: 64 * mebibyte,
  /** All events of one request; those that are watched for are as large as what the client sends. */
  trace: 16 * mebibyte,
  decisions: 16 * mebibyte,
  logging: mebibyte,
  refusal: mebibyte,
} as const;

/** An answer that is not a stream takes milliseconds, and seconds where there are ten thousands of resources. */
const defaultAnswerMs = 20_000;

export class AdminClient {
  readonly reach: Reach;
  readonly #answerMs: number;

  /** @param answerMs longest wait for an answer, and for a connection. */
  constructor(reach: Reach, answerMs = defaultAnswerMs) {
    this.reach = reach;
    this.#answerMs = answerMs;
  }

  /** The dump as it came; `parseConfigDump` reads it. */
  async configDumpText(): Promise<string> {
    return await this.#text({ path: "/config_dump" }, maxBytes.configDump);
  }

  async configDump(): Promise<ConfigDump> {
    return this.#parse("/config_dump", await this.configDumpText(), configDumpSchema);
  }

  async limits(): Promise<Limits> {
    return this.#parse("/limits", await this.#text({ path: "/limits" }, maxBytes.limits), limitsSchema);
  }

  /** What is remembered of the refusal with this `x-request-id`. */
  async decisions(id: string): Promise<Decisions> {
    const path = "/limits/decisions";
    return this.#parse(path, await this.#text({ path, query: { id } }, maxBytes.decisions), decisionsSchema);
  }

  /** The directives in effect. */
  async logLevel(): Promise<string> {
    return directivesIn(await this.#text({ path: "/logging" }, maxBytes.logging));
  }

  /** The modules that log, a line each: name, level, what it logs. */
  async logModules(): Promise<readonly string[]> {
    const [, ...lines] = (await this.#text({ path: "/logging" }, maxBytes.logging)).split("\n");
    return lines.filter((line) => line !== "");
  }

  /** Sets a filter, or goes back to that of the start where there is none; resolves with the one in effect then. */
  async setLogLevel(level: string | undefined): Promise<string> {
    const query = level === undefined ? { reset: "true" } : { level };
    return directivesIn(await this.#text({ method: "POST", path: "/logging", query }, maxBytes.logging));
  }

  /** A gzipped pprof profile; `seconds` is for `cpu`. */
  async profile(kind: "cpu" | "heap", seconds: number, signal: AbortSignal): Promise<Buffer> {
    const call: Call =
      kind === "heap"
        ? { path: "/debug/pprof/heap", signal }
        : { path: "/debug/pprof/profile", query: { seconds: String(seconds) }, signal };
    return await this.#body(call, maxBytes.profile);
  }

  /** The stream of the next request's events; its first chunk says that the server watches. */
  async trace(expression: string | undefined, signal: AbortSignal): Promise<AsyncIterable<Buffer>> {
    const path = "/debug/trace";
    return this.#chunks(path, await this.#call({ path, query: { expression }, signal }), signal);
  }

  async *#chunks(path: string, answer: IncomingMessage, signal: AbortSignal): AsyncGenerator<Buffer, void, undefined> {
    try {
      yield* boundedBody(answer, maxBytes.trace);
    } catch (error) {
      throw signal.aborted ? error : this.#failure(path, error);
    }
  }

  async #text(call: Call, limit: number): Promise<string> {
    const overdue = AbortSignal.timeout(this.#answerMs);
    const answer = this.#body({ ...call, signal: overdue }, limit);
    return (await Promise.race([answer, this.#missing(call.path, overdue)])).toString("utf8");
  }

  async #body(call: Call, limit: number): Promise<Buffer> {
    const answer = await this.#call(call);
    try {
      return await readBody(answer, limit);
    } catch (error) {
      throw this.#failure(call.path, error);
    }
  }

  #failure(path: string, error: unknown): CommandError {
    return new CommandError({
      message: `ask ${this.reach.name} for ${path}: ${textOf(error)}`,
      advice: ["check that the address is of an admin server, and that the proxy has not just ended"],
      cause: error,
    });
  }

  #missing(path: string, overdue: AbortSignal): Promise<never> {
    return new Promise((_, reject) => {
      const give = (): void => {
        const seconds = this.#answerMs / 1_000;
        const message = `ask ${this.reach.name} for ${path}: no answer within ${seconds} s`;
        const advice = ["the proxy's main thread is busy, or the way to it is blocked: see its log, and try again"];
        reject(new CommandError({ message, advice }));
      };
      overdue.addEventListener("abort", give, { once: true });
    });
  }

  async #call({ method = "GET", path, query = {}, signal }: Call): Promise<IncomingMessage> {
    const { reach } = this;
    const given = Object.entries(query).filter((entry): entry is [string, string] => entry[1] !== undefined);
    const search = given.length === 0 ? "" : `?${new URLSearchParams(given).toString()}`;
    const attempt = `ask ${reach.name} for ${path}`;
    try {
      const connection = await reach.connect(reach.adminPort);
      const answer = await exchange(connection, {
        method,
        path: `${path}${search}`,
        headers: [
          ["host", reach.adminHost],
          ...(reach.adminToken === undefined ? [] : [["authorization", `Bearer ${reach.adminToken}`] as const]),
        ],
        signal,
      });
      if (answer.statusCode === 200) return answer;
      throw refusal(attempt, path, answer.statusCode ?? 0, (await readBody(answer, maxBytes.refusal)).toString("utf8"));
    } catch (error) {
      if (error instanceof CommandError) throw error;
      throw this.#failure(path, error);
    }
  }

  #parse<T>(path: string, text: string, schema: z.ZodType<T>): T {
    return parseAnswer(`read ${path} of ${this.reach.name}`, text, schema);
  }
}

/** Reads a JSON answer, or a saved one; `attempt` begins the words of a failure. */
export function parseAnswer<T>(attempt: string, text: string, schema: z.ZodType<T>): T {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (error) {
    throw new CommandError({
      message: `${attempt}: it is not JSON: ${textOf(error)}`,
      advice: ["check that this is what an admin server of the proxy answered"],
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

/** Reads a dump, live or saved. */
export function parseConfigDump(attempt: string, text: string): ConfigDump {
  return parseAnswer(attempt, text, configDumpSchema);
}

function refusal(attempt: string, path: string, status: number, body: string): CommandError {
  if (status === 404) {
    return new CommandError({
      message: `${attempt}: it has no such endpoint (404)`,
      advice: [`the proxy is older than this proxyctl, or no admin server listens there: update it to get ${path}`],
    });
  }
  const told = errorIn(body);
  return new CommandError({
    message: `${attempt}: ${told?.error ?? `it answered ${status}`}`,
    advice: told === undefined ? [] : [told.hint],
    // What it does not take is what the user has typed.
    exitCode: told !== undefined && status === 400 ? exitCodes.usage : exitCodes.failed,
  });
}

function errorIn(body: string): { readonly error: string; readonly hint: string } | undefined {
  try {
    return adminErrorSchema.parse(JSON.parse(body));
  } catch {
    // Not an answer of our admin server: the status is all that is known.
    return undefined;
  }
}

function directivesIn(text: string): string {
  return (text.split("\n", 1)[0] ?? "").replace(/^current log level is /, "");
}
