/** Validates the header blocks of a response (RFC 9113 §8.1, §8.2 and §8.3.2), by the same rules as those of HTTP/1. */
import { readLength } from "../../content-length.ts";
import { isFieldValue } from "../../http1/characters.ts";
import type { FieldList } from "../../ports.ts";
import { fieldSectionError, trailerSectionError } from "../fields.ts";

/** A head, or trailers. */
export interface ResponseHead {
  /** `:status`; 0 in trailers. */
  readonly status: number;
  /** The regular fields: names, in lower case, and values alternate. */
  readonly fields: FieldList;
}

/** The result of a block: the data that the caller extracts from it, or why it is malformed. */
export type ResponseBlock<Head> =
  | {
      readonly kind: "head";
      readonly status: number;
      /** The content-length; undefined if it is absent. */
      readonly contentLength: number | undefined;
      readonly head: Head;
    }
  | { readonly kind: "malformed"; readonly reason: string };

/**
 * Reads a block.
 *
 * @param fields undefined if they exceed the bounds.
 * @param readHead extracts the needed data from a valid block; it must be pure.
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
  const sectionError = status === 0 ? trailerSectionError : fieldSectionError;
  const error = sectionError(regular) ?? valueError(regular) ?? lengthError(regular);
  if (error !== undefined) return malformed(error);
  return { kind: "head", status, contentLength: lengthIn(regular), head: readHead({ status, fields: regular }) };
}

function malformed(reason: string): { readonly kind: "malformed"; readonly reason: string } {
  return { kind: "malformed", reason };
}

/** Returns the error for a control character; RFC 9113 §8.2.1 permits recipients to reject them. */
function valueError(fields: FieldList): string | undefined {
  for (let at = 0; at < fields.length; at += 2) {
    if (!isFieldValue(fields[at + 1] ?? "")) return `${fields[at] ?? ""} has a control character`;
  }
  return undefined;
}

/** Returns the error in content-length, which a head has at most once (RFC 9110 §8.6). */
function lengthError(fields: FieldList): string | undefined {
  let lengths = 0;
  for (let at = 0; at < fields.length; at += 2) {
    if (fields[at] !== "content-length") continue;
    if (++lengths > 1) return "more than one content-length";
    if (readLength(fields[at + 1] ?? "") === undefined) return "content-length is not a number of bytes";
  }
  return undefined;
}

function lengthIn(fields: FieldList): number | undefined {
  for (let at = 0; at < fields.length; at += 2) {
    if (fields[at] === "content-length") return readLength(fields[at + 1] ?? "");
  }
  return undefined;
}
