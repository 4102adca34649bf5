/** Parses query parameters. The errors contain the accepted values. */
import { acceptedTraceReference, parseTraceReference } from "@gatewayproxy/runtime/trace-context";
import { type AdminError, reject } from "./endpoint.ts";

/** Returns a whole number within inclusive bounds; `fallback` if the parameter is absent. */
export function readInteger<Fallback>(
  query: URLSearchParams,
  name: string,
  { min, max, fallback }: { readonly min: number; readonly max: number; readonly fallback: Fallback },
): number | Fallback | AdminError {
  const text = query.get(name);
  if (text === null) return fallback;
  const value = Number(text);
  if (/^\d+$/.test(text) && value >= min && value <= max) return value;
  const absent = typeof fallback === "number" ? `, ${fallback} if it is absent` : "";
  const hint = `${name} is a whole number from ${min} to ${max}${absent}`;
  return reject(400, `${name}=${text} is out of range or not a whole number`, hint);
}

/** Returns the trace id of `trace_id`, which may be a whole `traceparent`; undefined if it is absent. */
export function readTraceId(query: URLSearchParams): string | undefined | AdminError {
  const text = query.get("trace_id");
  if (text === null) return undefined;
  const reference = parseTraceReference(text);
  const error = `trace_id=${text.slice(0, 100)} is neither the id of a trace nor a traceparent`;
  return reference?.traceId ?? reject(400, error, `trace_id is ${acceptedTraceReference}`);
}

/** Returns the error for an unknown or repeated parameter; undefined if there is none. */
export function findUnknown(
  query: URLSearchParams,
  path: string,
  parameters: readonly string[],
): AdminError | undefined {
  const names = parameters.map((parameter) => parameter.split("=", 1)[0] ?? "");
  const accepted = names.length === 0 ? `${path} takes no parameters` : `${path} takes ${parameters.join(" and ")}`;
  const seen = new Set<string>();
  for (const name of query.keys()) {
    if (!names.includes(name)) return reject(400, `parameter "${name}" is not known`, accepted);
    if (seen.has(name)) return reject(400, `parameter "${name}" is given twice`, accepted);
    seen.add(name);
  }
  return undefined;
}
