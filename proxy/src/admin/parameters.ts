/** Reads the parameters of a query, each with what it accepts. */
import { type AdminRefusal, refuse } from "./endpoint.ts";

/** A whole number within bounds, both included; `fallback` where the parameter is absent. */
export function readInteger<Fallback>(
  query: URLSearchParams,
  name: string,
  { min, max, fallback }: { readonly min: number; readonly max: number; readonly fallback: Fallback },
): number | Fallback | AdminRefusal {
  const text = query.get(name);
  if (text === null) return fallback;
  const value = Number(text);
  if (/^\d+$/.test(text) && value >= min && value <= max) return value;
  const absent = typeof fallback === "number" ? `, ${fallback} where it is absent` : "";
  const hint = `${name} is a whole number from ${min} to ${max}${absent}`;
  return refuse(400, `${name}=${text} is out of range or no whole number`, hint);
}

/** A parameter that the endpoint does not have, or that comes twice; undefined when there is none. */
export function findUnknown(query: URLSearchParams, path: string, known: readonly string[]): AdminRefusal | undefined {
  const names = known.map((parameter) => parameter.split("=", 1)[0] ?? "");
  const accepted = names.length === 0 ? `${path} takes no parameters` : `${path} takes ${known.join(" and ")}`;
  const seen = new Set<string>();
  for (const name of query.keys()) {
    if (!names.includes(name)) return refuse(400, `parameter "${name}" is not known`, accepted);
    if (seen.has(name)) return refuse(400, `parameter "${name}" is given twice`, accepted);
    seen.add(name);
  }
  return undefined;
}
