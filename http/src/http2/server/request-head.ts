/**
 * Validates the header block of a request (RFC 9113 §8.1 to §8.3). A request that violates these rules is malformed: it
 * is rejected, never repaired, so that no server behind this one can interpret it differently.
 */
import { fieldSectionError, isFieldValue } from "../fields.ts";
import type { Result } from "@gatewayproxy/runtime/problem";

/** A valid head of a request. */
export interface RequestHead {
  readonly method: string;
  readonly path: string;
  /** Length of the body; absent when the client did not declare it. */
  readonly contentLength?: number;
  /** The regular fields as [name, value, …], names in lower case. */
  readonly fields: readonly string[];
}

function malformed(message: string): Result<never> {
  return { ok: false, problems: [{ message }] };
}

/** Parses the fields of a request's first block; a malformed one has one problem. */
export function parseRequestHead(fields: readonly string[]): Result<RequestHead> {
  const pseudo = new Map<string, string>();
  let index = 0;
  for (; fields[index]?.startsWith(":") === true; index += 2) {
    const name = fields[index] ?? "";
    if (pseudo.has(name)) {
      return malformed(`${name} is duplicate`);
    }
    pseudo.set(name, fields[index + 1] ?? "");
  }
  const regular = fields.slice(index);
  const problem = pseudoFieldProblem(pseudo) ?? fieldSectionError(regular);
  if (problem !== undefined) {
    return malformed(problem);
  }
  const contentLength = readContentLength(regular);
  if (contentLength === "malformed") {
    return malformed("content-length must be one decimal number");
  }
  return {
    ok: true,
    value: {
      method: pseudo.get(":method") ?? "",
      path: pseudo.get(":path") ?? "",
      fields: regular,
      ...(contentLength === undefined ? {} : { contentLength }),
    },
  };
}

function pseudoFieldProblem(pseudo: ReadonlyMap<string, string>): string | undefined {
  for (const [name, value] of pseudo) {
    if (name !== ":method" && name !== ":scheme" && name !== ":path" && name !== ":authority") {
      return `${name} is not allowed in a request`;
    }
    if (!isFieldValue(value)) {
      return `${name} contains a character that is not allowed in a field`;
    }
  }
  for (const name of [":method", ":scheme", ":path"]) {
    if ((pseudo.get(name) ?? "") === "") {
      return `${name} is missing`;
    }
  }
  return undefined;
}

function readContentLength(fields: readonly string[]): number | undefined | "malformed" {
  let length: number | undefined;
  for (let index = 0; index < fields.length; index += 2) {
    if (fields[index] === "content-length") {
      const text = fields[index + 1] ?? "";
      if (length !== undefined || !/^\d{1,15}$/.test(text)) {
        return "malformed";
      }
      length = Number(text);
    }
  }
  return length;
}
