/** Parses a header block that begins a request, or that ends one. */
import { fieldSectionError } from "../fields.ts";
import { parseRequestHead, type RequestHead } from "./request-head.ts";

/** The result of a block that begins a request. */
export type RequestBlock<Head> =
  | { readonly kind: "request"; readonly head: Head; readonly contentLength?: number }
  | { readonly kind: "malformed"; readonly reason: string }
  | { readonly kind: "tooLarge" };

/**
 * Parses the fields of a request's first block.
 *
 * @param fields undefined for too many.
 * @param readHead takes the data that the handler needs from a well-formed head; it must be pure.
 */
export function readRequestBlock<Head>(
  fields: readonly string[] | undefined,
  readHead: (head: RequestHead) => Head,
): RequestBlock<Head> {
  if (fields === undefined) return { kind: "tooLarge" };
  const result = parseRequestHead(fields);
  if (!result.ok) return { kind: "malformed", reason: result.problems[0]?.message ?? "" };
  const { contentLength } = result.value;
  return { kind: "request", head: readHead(result.value), ...(contentLength !== undefined && { contentLength }) };
}

/** Returns the problem of a block that ends a request, or `undefined`; its fields are not used otherwise. */
export function trailerProblem(fields: readonly string[] | undefined): string | undefined {
  return fields === undefined ? "the trailers are too large" : fieldSectionError(fields);
}
