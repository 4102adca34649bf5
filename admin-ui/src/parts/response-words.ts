/** What responses show of the limits of a policy, in words. */
import type { DumpedPolicy } from "@gatewayproxy/admin-api/config-dump";

const forms: Readonly<Record<DumpedPolicy["denied"]["format"], string>> = {
  Text: "a text",
  Problem: "a problem (RFC 9457)",
  Provider: "the error of the provider's API",
};

/** Returns a sentence each on the response to denied requests and on the headers, if they are not the defaults. */
export function describeResponses({ headers, denied }: Pick<DumpedPolicy, "headers" | "denied">): readonly string[] {
  const { format, status, body } = denied;
  const sentences: string[] = [];
  if (format !== "Text" || status !== 429 || body !== undefined || denied.headers.length > 0) {
    const names = denied.headers.map(({ name }) => name).join(", ");
    sentences.push(`Denied requests get ${forms[format]} with status ${status}${names === "" ? "" : ` and ${names}`}.`);
  }
  if (headers.length === 0) sentences.push("No response headers show its limits.");
  else if (headers.join() !== "XRateLimit") sentences.push(`Response headers show its limits: ${headers.join(", ")}.`);
  return sentences;
}
