/** Flat header sections with names in lower case: those of responses, and of HTTP/2 requests. */

/** First value of a field; `name` lower case. */
export function fieldOf(headers: readonly string[], name: string): string | undefined {
  for (let i = 0; i < headers.length; i += 2) if (headers[i] === name) return headers[i + 1];
  return undefined;
}

/** Whether the content type is JSON, or a type with its syntax (RFC 6839 §3.1). */
export function isJson(headers: readonly string[]): boolean {
  return /^\s*application\/(?:[\w.-]+\+)?json\b/i.test(fieldOf(headers, "content-type") ?? "");
}

/** Takes every field of a name out, in place; `name` lower case. */
export function removeField(headers: string[], name: string): void {
  for (let i = headers.length - 2; i >= 0; i -= 2) if (headers[i] === name) headers.splice(i, 2);
}
