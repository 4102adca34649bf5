/** The routes of the HTTP port: `/json`, the rate limit call for clients without gRPC, and `/healthcheck`. */
import { type Problem, renderProblem } from "@gatewayproxy/runtime/problem";
import { anySite } from "@gatewayproxy/runtime/web-guard";
import { type CallBounds, defaultCallBounds } from "../../limiter/call-bounds.ts";
import type { Code } from "../../model/rate-limit.ts";
import { RateLimitError, type RateLimitService } from "../../service.ts";
import type { ServingStatus } from "../serving-status.ts";
import { type HttpResponse, type HttpRequest, type HttpRoute, textResponse } from "./http-server.ts";
import { parseRateLimitJson, renderRateLimitJson } from "./rate-limit-json.ts";

const statusOfCode: Readonly<Record<Code, number>> = { OK: 200, OVER_LIMIT: 429, UNKNOWN: 500 };

/** The path of calls. */
export const callPath = "/json";

/**
 * Returns both routes, by path; as in envoyproxy/ratelimit they accept all methods. A call beyond `bounds` gets 400.
 */
export function serviceRoutes(
  service: RateLimitService,
  status: ServingStatus,
  bounds: CallBounds = defaultCallBounds,
): [path: string, route: HttpRoute][] {
  return [
    [callPath, (request) => jsonRequestResponse(service, bounds, request)],
    ["/healthcheck", () => (status.isServing ? textResponse(200, "OK") : textResponse(500, ""))],
  ];
}

async function jsonRequestResponse(
  service: RateLimitService,
  bounds: CallBounds,
  request: HttpRequest,
): Promise<HttpResponse> {
  // A web page must not count hits, and a browser sends a form's cross-site POST without a preflight. The content type
  // does not identify pages, because curl and the clients of envoyproxy/ratelimit send any.
  const site = anySite(request.headers);
  if (site !== undefined) return textResponse(403, `a request from a web page (${site}) is not allowed\n`);
  const parsed = parseRateLimitJson(request.body, bounds);
  if (!parsed.ok) return badRequest(parsed.problems);
  try {
    const response = await service.shouldRateLimit(parsed.value);
    return {
      status: statusOfCode[response.overallCode],
      contentType: "application/json",
      body: renderRateLimitJson(response),
    };
  } catch (error) {
    // envoyproxy/ratelimit has one status for all its errors; only the messages differ.
    if (error instanceof RateLimitError) return badRequest([{ message: error.message }]);
    throw error;
  }
}

/** Begins with envoyproxy/ratelimit's message; a long list is truncated. */
function badRequest(problems: readonly Problem[]): HttpResponse {
  const shown = problems.slice(0, 10).map((problem) => renderProblem(problem));
  const more = problems.length > shown.length ? [`and ${problems.length - shown.length} more`] : [];
  return textResponse(400, `Bad Request: ${[...shown, ...more].join("; ")}\n`);
}
