/** Links to a trace in a trace backend, by a template of its URL. */

const placeholder = /\{(\w*)\}/g;
const known: readonly string[] = ["traceId", "spanId"];

/** A trace, and a span of it. */
export interface TracePlace {
  readonly traceId: string;
  readonly spanId: string | undefined;
}

/**
 * Whether a text is the template of an URL: of http or https, without credentials, with `{traceId}` after the host, and
 * with no other placeholder than `{traceId}` and `{spanId}`.
 */
export function isTraceUrlTemplate(template: string): boolean {
  const names = [...template.matchAll(placeholder)].map(([, name = ""]) => name);
  if (!names.includes("traceId") || !names.every((name) => known.includes(name))) return false;
  const [first, second] = [filled(template, "1"), filled(template, "2")];
  return first !== undefined && second !== undefined && first.origin === second.origin;
}

/** Returns the URL of a trace; undefined if the template is not valid. The ids are percent-encoded. */
export function traceUrl(template: string, { traceId, spanId = "" }: TracePlace): string | undefined {
  if (!isTraceUrlTemplate(template)) return undefined;
  const ids: Readonly<Record<string, string>> = { traceId, spanId };
  return template.replaceAll(placeholder, (_, name: string) => encodeURIComponent(ids[name] ?? ""));
}

function filled(template: string, value: string): URL | undefined {
  const url = URL.parse(template.replaceAll(placeholder, value));
  if (url === null || (url.protocol !== "http:" && url.protocol !== "https:")) return undefined;
  return url.username === "" && url.password === "" ? url : undefined;
}
