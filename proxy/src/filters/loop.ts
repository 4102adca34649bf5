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

/**
 * Whether the Gateway itself has sent a request with that field. Such a request is not mirrored: where a rule mirrors to
 * where it forwards to, each pass would multiply the requests.
 */
export function isReturning(field: string, name: string): boolean {
  return passesOf(field, name) > 0;
}

function passesOf(field: string, name: string): number {
  if (field === "") return 0;
  // A member may have parameters (RFC 8586 §2).
  return field.split(",").filter((member) => member.split(";", 1)[0]?.trim().toLowerCase() === name).length;
}

/** The field as it is sent on. */
export function withPass(field: string, name: string): string {
  return field === "" ? name : `${field}, ${name}`;
}
