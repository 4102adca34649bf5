/** The methods of requests (RFC 9110 §9, and the methods that other RFCs register). */
import { METHODS } from "node:http";

const methods: ReadonlySet<string> = new Set(METHODS);

/**
 * Whether node:http knows a method. A backend rejects other methods or interprets them differently: some servers read
 * `post` as POST, and routes do not (methods are case-sensitive, RFC 9110 §9.1).
 */
export function isKnownMethod(method: string): boolean {
  return methods.has(method);
}
