/**
 * Detects request loops: a route whose backend leads, directly or not, to the Gateway itself. `CDN-Loop` (RFC 8586) has
 * a member for each time that a gateway forwarded the request. No filter can remove it. `Via` would do too, but origin
 * servers disable compression when they see it.
 */
import { isName } from "./hop-by-hop.ts";

/** The most passes of a request through one Gateway. More than one allows to chain listeners or routes. */
const maxPasses = 4;

/**
 * Returns the request's `cdn-loop`; empty where it has none.
 *
 * @param rawHeaders each name once.
 */
export function loopField(rawHeaders: readonly string[]): string {
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const name = rawHeaders[at];
    if (name?.length === 8 && isName(name, "cdn-loop")) return rawHeaders[at + 1] ?? "";
  }
  return "";
}

/** Whether a request with that field has passed the Gateway too often. */
export function isLoop(field: string, name: string): boolean {
  return passesOf(field, name) >= maxPasses;
}

/** The name of each Gateway begins with it. */
export const loopNamePrefix = "gateway-proxy-";

/** The parameter of a member whose rule mirrors: on the forwarded request, and on its copies. */
const mirrored = "mirrored";

/**
 * The most Gateways that mirror a request, one after the other. Each multiplies the requests by its mirrors, and anyone
 * may create many Gateways.
 */
const maxMirroringGateways = 2;

/**
 * Whether a request with that field must not be mirrored again: a mirroring rule of the Gateway has forwarded or copied
 * it, or those of other Gateways have, one after the other. Each pass multiplies the requests, so such a request is
 * rejected where it would be mirrored again. It is never served without its copies, since any client can send the
 * field.
 */
export function isMirrored(field: string, name: string): boolean {
  if (field === "") return false;
  const isMirror = (parameters: readonly string[]) => hasParameter(parameters, mirrored);
  const ofGateways = membersOf(field, (id) => id.startsWith(loopNamePrefix)).filter(isMirror);
  return ofGateways.length >= maxMirroringGateways || membersNamed(field, name).some(isMirror);
}

/**
 * Whether a request is a call of some Gateway to a rate limit service
 * (`policy/ratelimit/global/grpc/marked-client.ts`). A rule that would call a service for it rejects it, since a
 * service that leads to a Gateway would multiply such calls.
 */
export function isLimitCall(field: string): boolean {
  return membersNamed(field, "gateway-proxy").some((parameters) => hasParameter(parameters, "rate-limit"));
}

/** @param parameter in lower case. */
function hasParameter(parameters: readonly string[], parameter: string): boolean {
  return parameters.some((each) => each.trim().toLowerCase() === parameter);
}

function passesOf(field: string, name: string): number {
  return membersNamed(field, name).length;
}

function membersNamed(field: string, name: string): readonly (readonly string[])[] {
  return membersOf(field, (id) => id === name);
}

/** Returns the parameters (RFC 8586 §2) of each member. @param isWanted by its name, in lower case. */
function membersOf(field: string, isWanted: (id: string) => boolean): readonly (readonly string[])[] {
  if (field === "") return [];
  return field.split(",").flatMap((member) => {
    const [id = "", ...parameters] = member.split(";");
    return isWanted(id.trim().toLowerCase()) ? [parameters] : [];
  });
}

/**
 * Returns the field to forward.
 *
 * @param mirrors whether the rule mirrors.
 */
export function withPass(field: string, name: string, mirrors: boolean): string {
  const member = mirrors ? `${name}; ${mirrored}` : name;
  return field === "" ? member : `${field}, ${member}`;
}
