/** The response to a request that a limit denies. */
import type { GlobalDenial, LocalDenial } from "../../policy/ratelimit/denial.ts";
import { denialResponse } from "../../policy/ratelimit/denial-response.ts";
import type { ShownLimit } from "../../policy/ratelimit/shown-limit.ts";
import { formattedDenial } from "../formatted-denial.ts";
import { setLimitFields } from "../limit-fields.ts";
import type { StagedRequest } from "../stage.ts";

/**
 * Sends the response of a denial.
 *
 * @param nowMs monotonic.
 * @param others the limits that allowed the request before, for header families that list limits.
 */
export function deny(
  request: StagedRequest,
  denial: LocalDenial | GlobalDenial,
  nowMs: number,
  others: readonly ShownLimit[] = none,
): "responded" {
  request.services.denied(request.record, denial);
  request.record.reason = "RateLimited";
  const response = denialResponse(denial, nowMs);
  const { denied } = response.responses;
  const { status, headers, body } =
    denied === undefined
      ? { status: 429, headers: [...response.rawHeaders], body: response.body }
      : formattedDenial(request, response, denied);
  const { listed = none, denying } = response.named ?? {};
  if (listed.length + others.length > 0) setLimitFields(headers, [...others, ...listed], denying);
  return request.respondWithCors(status, headers, body);
}

const none: readonly never[] = [];
