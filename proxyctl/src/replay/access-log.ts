/** The proxy's access log as requests to replay: one JSON object a line, other lines of the same output skipped. */
import type { TokenUsage } from "@gatewayproxy/proxy/ir/usage";
import * as z from "zod";
import type { ReplayedRequest } from "./replay.ts";

/** The fields of a line that a limit can depend on; `headers` is for logs that others write. */
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
  model: z.string().optional(),
  headers: z.record(z.string(), z.string()).default({}),
});

export interface AccessLog {
  /** In the order of their starts. */
  readonly requests: readonly ReplayedRequest[];
  /** Lines that are no request, and lines that are no JSON. */
  readonly skipped: number;
}

/** Never throws; what is not a line of an access log is counted and left out. */
export function parseAccessLog(text: string): AccessLog {
  const requests: ReplayedRequest[] = [];
  let skipped = 0;
  for (const line of text.split("\n")) {
    if (line.trim() === "") continue;
    const request = parseLine(line);
    if (request === undefined) skipped += 1;
    else requests.push(request);
  }
  return { requests: requests.sort((a, b) => a.startMs - b.startMs), skipped };
}

function parseLine(line: string): ReplayedRequest | undefined {
  const parsed = lineSchema.safeParse(jsonOf(line));
  if (!parsed.success) return undefined;
  const { time, durationMs, userAgent, headers, listener, rule, status, source, model, ...rest } = parsed.data;
  const { totalTokens, inputTokens, outputTokens, ...request } = rest;
  // A line is written when its request has ended.
  const endMs = Date.parse(time);
  const agent = userAgent === undefined ? [] : ["user-agent", userAgent];
  return {
    // The time is in whole milliseconds, cut off: by the fraction of the duration a request would begin before the end
    // of the one whose answer its client had waited for.
    startMs: Math.ceil(endMs - durationMs),
    endMs,
    listener,
    rule,
    wasRefused: status === 429,
    usage: totalTokens === undefined ? undefined : usageOf(totalTokens, inputTokens, outputTokens, model),
    view: {
      ...request,
      // The log has the model that answered, which is nearly always the one that was asked for.
      llm: { requestModel: model },
      sourceAddress: source,
      rawHeaders: [...agent, ...Object.entries(headers).flat()],
    },
  };
}

function usageOf(
  total: number,
  input: number | undefined,
  output: number | undefined,
  model: string | undefined,
): TokenUsage {
  return {
    total,
    ...(input !== undefined && { input }),
    ...(output !== undefined && { output }),
    ...(model !== undefined && { model }),
    estimated: false,
  };
}

function jsonOf(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    // No line of a log of ours; the caller counts it.
    return undefined;
  }
}
