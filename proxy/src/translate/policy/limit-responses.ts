/** Translates what responses show of the limits of a policy. */
import type { ProxyPolicy } from "../../api/proxy-policy.ts";
import type { DeniedResponse, LimitResponses } from "../../ir/limit-response.ts";
import { memoised } from "@gatewayproxy/runtime/memoised";

/** Returns what differs from the defaults, so that a limit that keeps them has no such fields. */
export const responsesOf = memoised(({ spec }: ProxyPolicy): LimitResponses => {
  const { headers, denied } = spec.traffic.rateLimit;
  const isDefault = headers === undefined || (headers.length === 1 && headers[0] === "XRateLimit");
  const response = denied === undefined ? undefined : deniedResponse(denied);
  return {
    ...(!isDefault && { headers }),
    ...(response !== undefined && { denied: response }),
  };
});

type Denied = NonNullable<ProxyPolicy["spec"]["traffic"]["rateLimit"]["denied"]>;

function deniedResponse({ format, status, body, headers = [] }: Denied): DeniedResponse | undefined {
  const hasStatus = status !== undefined && status !== 429;
  if (format === "Text" && !hasStatus && body === undefined && headers.length === 0) return undefined;
  return {
    format,
    ...(hasStatus && { status }),
    ...(body !== undefined && { body }),
    ...(headers.length > 0 && { headers: headers.flatMap(({ name, value }) => [name.toLowerCase(), value]) }),
  };
}

/** Returns the texts of the response to denials, which each worker keeps once; empty if the policy has none. */
export const denialTextOf = memoised((policy: ProxyPolicy): string => {
  const { body = "", headers = [] } = responsesOf(policy).denied ?? {};
  return [body, ...headers].join("");
});
