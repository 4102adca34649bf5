/** The methods of requests (RFC 9110 §9, and the methods that other RFCs register). */
import { METHODS } from "node:http";

const methods: ReadonlySet<string> = new Set(METHODS);

/**
 * Whether servers of node:http know a method. A backend rejects the others, or takes them for something else: some servers
 * read `post` as POST, and routes do not (methods are case-sensitive, RFC 9110 §9.1).
 */
export function isKnownMethod(method: string): boolean {
  return methods.has(method);
}
