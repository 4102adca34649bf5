/**
 * Finds requests that go round in circles: a route whose backend is, by whatever way, the Gateway itself. `CDN-Loop` (RFC
 * 8586) has a member for each time that a gateway has forwarded a request. No filter can remove it. `Via` would say the
 * same, but origin servers switch compression off when they see it.
 */
import { isName } from "./hop-by-hop.ts";

/** How often a request may come to one Gateway. More than once is a way to chain listeners or routes. */
const maxPasses = 4;

/** The request's own `cdn-loop`; empty where it has none. @param rawHeaders each name once. */
export function loopField(rawHeaders: readonly string[]): string {
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const name = rawHeaders[at];
    if (name?.length === 8 && isName(name, "cdn-loop")) return rawHeaders[at + 1] ?? "";
  }
  return "";
}

/** Whether a request with that field has come to the Gateway too often. */
export function isLoop(field: string, name: string): boolean {
  return passesOf(field, name) >= maxPasses;
}

/** Parameter of the member of a pass whose rule mirrors: on the request that is forwarded, and on its copies. */
const mirrored = "mirrored";

/**
 * Whether a rule of the Gateway that mirrors has forwarded or copied a request with that field. Where a rule mirrors to
 * where it forwards to, each pass would multiply the requests, so such a request is refused where it would be mirrored
 * again. It is never served without its copies: any client can write the field.
 */
export function isMirrored(field: string, name: string): boolean {
  return membersOf(field, name).some((parameters) => parameters.some((each) => each.trim().toLowerCase() === mirrored));
}

function passesOf(field: string, name: string): number {
  return membersOf(field, name).length;
}

/** The parameters (RFC 8586 §2) of each member with that name. */
function membersOf(field: string, name: string): readonly (readonly string[])[] {
  if (field === "") return [];
  return field.split(",").flatMap((member) => {
    const [id = "", ...parameters] = member.split(";");
    return id.trim().toLowerCase() === name ? [parameters] : [];
  });
}

/** The field as it is sent on. @param mirrors whether the rule mirrors. */
export function withPass(field: string, name: string, mirrors: boolean): string {
  const member = mirrors ? `${name}; ${mirrored}` : name;
  return field === "" ? member : `${field}, ${member}`;
}
