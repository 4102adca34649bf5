/** The response to a request that a limit denies. */
import type { Denial } from "../../policy/ratelimit/denial.ts";
import type { StagedRequest } from "../stage.ts";

/** Sends the 429 of a limit. @param headers flat, with those of the limit. */
export function deny(
  request: StagedRequest,
  denial: Denial,
  headers: readonly string[],
  body: Buffer | string,
): "responded" {
  request.services.denied(request.record, denial);
  request.record.reason = "RateLimited";
  return request.respondWithCors(429, [...headers], body);
}
