/** The response to a denial as the policy of its limit describes it: its status, its body and further fields. */
import { fieldOf } from "@gatewayproxy/http/fields";
import { headerOf } from "../cel/variables.ts";
import { replaceFields } from "../filters/header-edits.ts";
import type { DeniedResponse } from "../ir/limit-response.ts";
import { apiOf } from "../llm/provider-api.ts";
import { type ErrorResponse, quotaError } from "../llm/quota-error.ts";
import type { DenialResponse } from "../policy/ratelimit/denial-response.ts";
import { isGrpcRequest } from "./grpc-reply.ts";
import { durationText } from "./limit-fields.ts";
import type { StagedRequest } from "./stage.ts";

/** A response. `headers` are names and values that alternate; the caller may edit them. */
export interface FormattedDenial {
  readonly status: number;
  readonly headers: string[];
  readonly body: Buffer | string;
}

/**
 * Returns the response that a policy specifies. For a gRPC call, whose response has no body, the status is 429, which
 * decides its gRPC status, and the body is the text of its message.
 */
export function formattedDenial(
  request: StagedRequest,
  response: DenialResponse,
  denied: DeniedResponse,
): FormattedDenial {
  const { record, downstream } = request;
  const isGrpc = isGrpcRequest(record.httpVersion, downstream.head.rawHeaders);
  const status = isGrpc ? 429 : (denied.status ?? 429);
  const headers = [...response.rawHeaders];
  const own = isGrpc ? textOf(denied) : contentOf(request, response, denied, status);
  // A cache may store responses with 404, 410 and others (RFC 9111 §4.2.2). It must not store a denial.
  if (status !== 429) replaceFields(headers, ["cache-control", "no-store"]);
  if (own !== undefined) replaceFields(headers, own.headers);
  if (denied.headers !== undefined) replaceFields(headers, denied.headers);
  return { status, headers, body: own?.body ?? response.body };
}

/** Returns the body that the policy specifies; undefined keeps that of the gateway or the service. */
function contentOf(
  request: StagedRequest,
  response: DenialResponse,
  denied: DeniedResponse,
  status: number,
): ErrorResponse | undefined {
  if (denied.format === "Text") return textOf(denied);
  const retryAfterSeconds = retryAfterOf(response.rawHeaders);
  const message = denied.body ?? messageOf(retryAfterSeconds);
  const api = denied.format === "Provider" ? apiOfRequest(request) : undefined;
  if (api === undefined) return problem(response, message, status);
  const { requestId } = request.record;
  return quotaError(api, { message, counts: response.counts, status, retryAfterSeconds, requestId });
}

function textOf({ body }: DeniedResponse): ErrorResponse | undefined {
  return body === undefined ? undefined : { headers: ["content-type", "text/plain; charset=utf-8"], body };
}

/** Returns a message with the phrase in which clients search the time to wait: "try again in 6m0s". */
function messageOf(retryAfterSeconds: number | undefined): string {
  const advice = retryAfterSeconds === undefined ? "" : ` Please try again in ${durationText(retryAfterSeconds)}.`;
  return `Rate limit exceeded.${advice}`;
}

/** The problem type "Quota Exceeded" of draft-ietf-httpapi-ratelimit-headers. */
function problem({ named }: DenialResponse, detail: string, status: number): ErrorResponse {
  const body = {
    type: "https://iana.org/assignments/http-problem-types#quota-exceeded",
    title: "Request cannot be satisfied as assigned quota has been exceeded",
    status,
    detail,
    "violated-policies": named?.exhausted ?? [],
  };
  return { headers: ["content-type", "application/problem+json"], body: JSON.stringify(body) };
}

/** Returns the API of the request, by the provider of the target, or of the rule if no target was picked. */
function apiOfRequest({ target, rule, downstream, view }: StagedRequest): ReturnType<typeof apiOf> {
  const provider = target?.kind === "backend" ? target.ai?.provider : rule.provider;
  return apiOf(provider, downstream.head.path, headerOf(view, "anthropic-version") !== undefined);
}

/** Returns the value of `retry-after` in seconds; undefined if it is absent or a date, as a service may send. */
function retryAfterOf(headers: readonly string[]): number | undefined {
  const value = fieldOf(headers, "retry-after");
  return value !== undefined && /^\d{1,9}$/.test(value) ? Number(value) : undefined;
}
