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

/** The parameter of a member whose rule mirrors: on the forwarded request, and on its copies. */
const mirrored = "mirrored";

/**
 * Whether a mirroring rule of the Gateway has forwarded or copied a request with that field. Where a rule mirrors to
 * its own backend, each pass would multiply the requests, so such a request is rejected where it would be mirrored
 * again. It is never served without its copies, since any client can send the field.
 */
export function isMirrored(field: string, name: string): boolean {
  return hasParameter(field, name, mirrored);
}

/**
 * Whether a request is a call of some Gateway to a rate limit service (`policy/ratelimit/global/grpc/marked-client.ts`). A rule that
 * would call a service for it rejects it, since a service that leads to a Gateway would multiply such calls.
 */
export function isLimitCall(field: string): boolean {
  return hasParameter(field, "gateway-proxy", "rate-limit");
}

/** Whether a member of the field with the name has the parameter, which is in lower case. */
function hasParameter(field: string, name: string, parameter: string): boolean {
  return membersOf(field, name).some((parameters) =>
    parameters.some((each) => each.trim().toLowerCase() === parameter),
  );
}

function passesOf(field: string, name: string): number {
  return membersOf(field, name).length;
}

/** Returns the parameters (RFC 8586 §2) of each member with that name. */
function membersOf(field: string, name: string): readonly (readonly string[])[] {
  if (field === "") return [];
  return field.split(",").flatMap((member) => {
    const [id = "", ...parameters] = member.split(";");
    return id.trim().toLowerCase() === name ? [parameters] : [];
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
