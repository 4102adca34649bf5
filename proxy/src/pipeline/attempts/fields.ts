/** Flat header sections with names in lower case: those of responses, and of HTTP/2 requests. */
import { fieldOf } from "@gatewayproxy/http/fields";

/** Whether the content type is JSON, or a type with its syntax (RFC 6839 §3.1). */
export function isJson(headers: readonly string[]): boolean {
  return /^\s*application\/(?:[\w.-]+\+)?json\b/i.test(fieldOf(headers, "content-type") ?? "");
}

/** Takes every field of a name out, in place; `name` lower case. */
export function removeField(headers: string[], name: string): void {
  for (let i = headers.length - 2; i >= 0; i -= 2) if (headers[i] === name) headers.splice(i, 2);
}
