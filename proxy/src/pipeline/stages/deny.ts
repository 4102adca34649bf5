/** The response to a request that a limit denies. */
import type { Denial } from "../../policy/ratelimit/denial.ts";
import type { DenialResponse } from "../../policy/ratelimit/denial-response.ts";
import type { StagedRequest } from "../stage.ts";

/** Sends the response of a denial. */
export function deny(
  request: StagedRequest,
  denial: Denial,
  { status, rawHeaders, body }: DenialResponse,
): "responded" {
  request.services.denied(request.record, denial);
  request.record.reason = "RateLimited";
  return request.respondWithCors(status, [...rawHeaders], body);
}
