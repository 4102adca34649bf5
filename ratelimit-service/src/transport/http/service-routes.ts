/** The routes of the HTTP port: `/json`, the rate limit call for clients without gRPC, and `/healthcheck`. */
import { type Problem, renderProblem } from "@gatewayproxy/runtime/problem";
import { anySite } from "@gatewayproxy/runtime/web-guard";
import { type CallBounds, defaultCallBounds } from "../../limiter/call-bounds.ts";
import type { Code } from "../../limiter/rate-limit.ts";
import { RateLimitError, type RateLimitService } from "../../service.ts";
import type { ServingStatus } from "../serving-status.ts";
import { type HttpAnswer, type HttpRequest, type HttpRoute, textAnswer } from "./http-server.ts";
import { parseRateLimitJson, renderRateLimitJson } from "./rate-limit-json.ts";

const statusOfCode: Readonly<Record<Code, number>> = { OK: 200, OVER_LIMIT: 429, UNKNOWN: 500 };

/** Both routes, by path; as the reference they take any method. A call beyond `bounds` is 400. */
export function serviceRoutes(
  service: RateLimitService,
  status: ServingStatus,
  bounds: CallBounds = defaultCallBounds,
): [path: string, route: HttpRoute][] {
  return [
    ["/json", (request) => answerJson(service, bounds, request)],
    ["/healthcheck", () => (status.isServing ? textAnswer(200, "OK") : textAnswer(500, ""))],
  ];
}

async function answerJson(service: RateLimitService, bounds: CallBounds, request: HttpRequest): Promise<HttpAnswer> {
  // Its calls count, and a browser adds a form's cross-site POST without asking. Content types say nothing: curl and the
  // reference's clients send any.
  const site = anySite(request.headers);
  if (site !== undefined) return textAnswer(403, `web pages (${site}) may not ask\n`);
  const parsed = parseRateLimitJson(request.body, bounds);
  if (!parsed.ok) return badRequest(parsed.problems);
  try {
    const answer = await service.shouldRateLimit(parsed.value);
    return {
      status: statusOfCode[answer.overallCode],
      contentType: "application/json",
      body: renderRateLimitJson(answer),
    };
  } catch (error) {
    // The reference has one status for all its errors; only the words are ours.
    if (error instanceof RateLimitError) return badRequest([{ message: error.message }]);
    throw error;
  }
}

/** Begins with the reference's words; a long list is cut, since nobody reads it. */
function badRequest(problems: readonly Problem[]): HttpAnswer {
  const shown = problems.slice(0, 10).map((problem) => renderProblem(problem));
  const more = problems.length > shown.length ? [`and ${problems.length - shown.length} more`] : [];
  return textAnswer(400, `Bad Request: ${[...shown, ...more].join("; ")}\n`);
}
