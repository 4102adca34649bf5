/** Parses a header block that begins a request, or that ends one. */
import type { FieldList } from "../../ports.ts";
import { trailerSectionError } from "../fields.ts";
import { parseRequestHead, type RequestHead } from "./request-head.ts";

/** The result of a block that begins a request. */
export type RequestBlock<Head> =
  | { readonly kind: "request"; readonly head: Head; readonly contentLength?: number }
  | { readonly kind: "malformed"; readonly reason: string }
  | { readonly kind: "tooLarge"; readonly fields: FieldList };

/**
 * Parses the fields of a request's first block.
 *
 * @param allowsConnect whether the method may be CONNECT.
 * @param readHead extracts the data that the handler needs from a well-formed head; it must be pure.
 */
export function readRequestBlock<Head>(
  fields: readonly string[],
  allowsConnect: boolean,
  readHead: (head: RequestHead) => Head,
): RequestBlock<Head> {
  const result = parseRequestHead(fields, allowsConnect);
  if (!result.ok) return { kind: "malformed", reason: result.problems[0]?.message ?? "" };
  const { contentLength } = result.value;
  return { kind: "request", head: readHead(result.value), ...(contentLength !== undefined && { contentLength }) };
}

/** The result of a block that ends a request. */
export type TrailerBlock =
  | { readonly kind: "trailers"; readonly fields: readonly string[] }
  | { readonly kind: "malformed" }
  | { readonly kind: "tooLarge" };

/**
 * Validates the fields of a block that ends a request.
 *
 * @param fields undefined if they are too large.
 * @param maxFields the maximum number of fields.
 */
export function readTrailerBlock(fields: readonly string[] | undefined, maxFields = Infinity): TrailerBlock {
  if (fields === undefined || fields.length > 2 * maxFields) return { kind: "tooLarge" };
  return trailerSectionError(fields) === undefined ? { kind: "trailers", fields } : { kind: "malformed" };
}
