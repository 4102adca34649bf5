/** What a header block says that begins a request, or that ends one. */
import { faultOfFields } from "@gatewayproxy/runtime/http2/fields";
import { parseRequestHead, type RequestHead } from "./request-head.ts";

/** A block that begins a request. */
export type RequestBlock<Head> =
  | { readonly kind: "request"; readonly head: Head; readonly contentLength?: number }
  | { readonly kind: "malformed"; readonly reason: string }
  | { readonly kind: "tooLarge" };

/**
 * Reads the fields of a request's first block.
 *
 * @param fields undefined for too many.
 * @param readHead takes from a well-formed head what the handler needs; it must be pure.
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

/** What is wrong with a block that ends a request; its fields are not used otherwise. */
export function faultOfTrailers(fields: readonly string[] | undefined): string | undefined {
  return fields === undefined ? "the trailers are too large" : faultOfFields(fields);
}
