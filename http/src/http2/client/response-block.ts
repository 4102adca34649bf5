/** Validates the header blocks of a response (RFC 9113 §8.1 and §8.3.2). */
import type { FieldList } from "../../ports.ts";
import { fieldSectionError } from "../fields.ts";

/** A head, or trailers. */
export interface ResponseHead {
  /** `:status`; 0 in trailers. */
  readonly status: number;
  /** The regular fields: names in lower case and values in turns. */
  readonly fields: FieldList;
}

/** The result of a block: the data that the caller takes from it, or why it is malformed. */
export type ResponseBlock<Head> =
  | { readonly kind: "head"; readonly status: number; readonly head: Head }
  | { readonly kind: "malformed"; readonly reason: string };

/**
 * Reads a block.
 *
 * @param fields undefined for too many.
 * @param readHead takes the needed data from a valid block; it must be pure.
 */
export function readResponseBlock<Head>(
  fields: FieldList | undefined,
  readHead: (head: ResponseHead) => Head,
): ResponseBlock<Head> {
  if (fields === undefined) return malformed("headers that are too large");
  let status = 0;
  let regular = fields;
  if (fields[0]?.startsWith(":") === true) {
    const [name, text = ""] = fields;
    if (name !== ":status" || !/^[1-9]\d\d$/.test(text)) return malformed("no valid :status");
    status = Number(text);
    regular = fields.slice(2);
  }
  // A repeated or late pseudo-header field is not a valid field name.
  const error = fieldSectionError(regular);
  if (error !== undefined) return malformed(error);
  return { kind: "head", status, head: readHead({ status, fields: regular }) };
}

function malformed(reason: string): { readonly kind: "malformed"; readonly reason: string } {
  return { kind: "malformed", reason };
}
