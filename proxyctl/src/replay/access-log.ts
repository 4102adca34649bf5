/** Parses the proxy's access log into requests to replay: one JSON object per line. Other lines are skipped. */
import { microUnitsNear } from "@gatewayproxy/runtime/money";
import type { TokenUsage } from "@gatewayproxy/proxy/usage";
import * as z from "zod";
import { identityOf, jsonOf } from "./identity.ts";
import type { ReplayedRequest } from "./replay.ts";

/**
 * The fields of a line on which a limit can depend. `headers`, `jwt` and `apiKey` are not in the log of the proxy, and
 * may be added.
 */
const lineSchema = z.object({
  time: z.iso.datetime({ offset: true }),
  durationMs: z.number().min(0).default(0),
  method: z.string(),
  path: z.string(),
  scheme: z.string().default("http"),
  authority: z.string().default(""),
  source: z.string().default(""),
  userAgent: z.string().optional(),
  listener: z.string().optional(),
  rule: z.string().optional(),
  status: z.int().default(0),
  totalTokens: z.int().min(0).optional(),
  inputTokens: z.int().min(0).optional(),
  outputTokens: z.int().min(0).optional(),
  cachedInputTokens: z.int().min(0).optional(),
  cacheCreationTokens: z.int().min(0).optional(),
  reasoningTokens: z.int().min(0).optional(),
  cost: z.number().min(0).max(1e9).optional(),
  currency: z.string().optional(),
  backend: z.string().optional(),
  model: z.string().optional(),
  reason: z.string().optional(),
  identity: z.string().optional(),
  clientModel: z.string().optional(),
  requestModel: z.string().optional(),
  headers: z.record(z.string(), z.string()).default({}),
  jwt: z.record(z.string(), z.unknown()).optional(),
  apiKey: z.record(z.string(), z.string()).optional(),
});

/** Reasons of requests that were rejected before the limits. */
const unauthenticated: ReadonlySet<string | undefined> = new Set(["Unauthenticated", "AuthenticationUnavailable"]);

/** The requests of an access log. */
export interface AccessLog {
  /** Sorted by start. */
  readonly requests: readonly ReplayedRequest[];
  /** The number of lines that are not JSON or not a request. */
  readonly skipped: number;
  /** The number of requests that authentication rejected, so that no limit counted them. */
  readonly unauthenticated: number;
}

/** Parses a log. Never throws: other lines are counted and left out. */
export function parseAccessLog(text: string): AccessLog {
  const requests: ReplayedRequest[] = [];
  const sums = { skipped: 0, unauthenticated: 0 };
  for (const line of text.split("\n")) {
    if (line.trim() === "") continue;
    const request = parseLine(line);
    if (typeof request === "string") sums[request] += 1;
    else requests.push(request);
  }
  return { requests: requests.sort((a, b) => a.startMs - b.startMs), ...sums };
}

function parseLine(line: string): ReplayedRequest | "skipped" | "unauthenticated" {
  const parsed = lineSchema.safeParse(jsonOf(line));
  if (!parsed.success) return "skipped";
  const { time, durationMs, userAgent, headers, listener, rule, status, source, model, ...others } = parsed.data;
  const { reason, identity, jwt, apiKey, ...rest } = others;
  if (unauthenticated.has(reason)) return "unauthenticated";
  const {
    totalTokens,
    inputTokens,
    outputTokens,
    cachedInputTokens,
    cacheCreationTokens,
    reasoningTokens,
    cost,
    currency,
    backend,
    // Without these the log has the model of the response, which nearly always is the requested one.
    requestModel = model,
    clientModel = requestModel,
    ...request
  } = rest;
  // A line is written when its request has ended.
  const endMs = Date.parse(time);
  const agent = userAgent === undefined ? [] : ["user-agent", userAgent];
  return {
    // The time is truncated to milliseconds. Without rounding up, a request could begin before the end of the one whose
    // response its client had waited for.
    startMs: Math.ceil(endMs - durationMs),
    endMs,
    listener,
    rule,
    ...(backend !== undefined && { backend }),
    wasDenied: status === 429,
    identity: identityOf(identity, { jwt, apiKey }),
    usage: usageOf(
      { total: totalTokens, input: inputTokens, output: outputTokens },
      { cachedInputTokens, cacheCreationTokens, reasoningTokens, model, currency, cost: cost && microUnitsNear(cost) },
    ),
    view: {
      ...request,
      llm: { requestModel, clientModel },
      sourceAddress: source,
      rawHeaders: [...agent, ...Object.entries(headers).flat()],
    },
  };
}

/** @returns undefined if the response was not counted. */
function usageOf(
  { total, input, output }: Optional<Pick<TokenUsage, "total" | "input" | "output">>,
  details: Optional<Omit<TokenUsage, "total" | "input" | "output" | "estimated">>,
): TokenUsage | undefined {
  if (total === undefined) return undefined;
  const { cachedInputTokens, cacheCreationTokens, reasoningTokens, model, cost, currency } = details;
  return {
    total,
    ...(input !== undefined && { input }),
    ...(output !== undefined && { output }),
    ...(cachedInputTokens !== undefined && { cachedInputTokens }),
    ...(cacheCreationTokens !== undefined && { cacheCreationTokens }),
    ...(reasoningTokens !== undefined && { reasoningTokens }),
    ...(model !== undefined && { model }),
    ...(cost !== undefined && { cost }),
    ...(currency !== undefined && { currency }),
    estimated: false,
  };
}

type Optional<T> = { readonly [Name in keyof T]?: T[Name] | undefined };
