/**
 * Validates the header block of a request (RFC 9113 §8.1 to §8.3). A request that violates these rules is malformed: it
 * is rejected, never repaired, so that no server behind this one can interpret it differently.
 */
import { readLength } from "../../content-length.ts";
import { fieldSectionError, isFieldValue } from "../fields.ts";
import { isToken } from "../../http1/characters.ts";
import type { Result } from "@gatewayproxy/runtime/problem";

/** A valid head of a request. */
export interface RequestHead {
  readonly method: string;
  /** Empty for a CONNECT without `protocol`. */
  readonly path: string;
  readonly authority: string | undefined;
  /** The protocol of an extended CONNECT (RFC 8441 §4); undefined for any other request. */
  readonly protocol: string | undefined;
  /** Length of the body; absent when the client did not declare it. */
  readonly contentLength?: number;
  /** Whether the client waits for 100 (Continue) before it sends the body (RFC 9110 §10.1.1). */
  readonly awaitsContinue: boolean;
  /** The regular fields as [name, value, …], names in lower case. */
  readonly fields: readonly string[];
}

/** Pseudo-header fields, which come first (§8.3). */
interface PseudoFields {
  ":method"?: string;
  ":scheme"?: string;
  ":path"?: string;
  ":authority"?: string;
  ":protocol"?: string;
}

function malformed(message: string): Result<never> {
  return { ok: false, problems: [{ message }] };
}

/**
 * Parses the fields of a request's first block; a malformed one has one problem.
 *
 * @param allowsConnect whether the method may be CONNECT.
 */
export function parseRequestHead(fields: readonly string[], allowsConnect: boolean): Result<RequestHead> {
  const pseudo: PseudoFields = {};
  let index = 0;
  for (; fields[index]?.startsWith(":") === true; index += 2) {
    const name = fields[index] ?? "";
    const value = fields[index + 1] ?? "";
    if (!isPseudoName(name)) return malformed(`${name} is not allowed in a request`);
    if (pseudo[name] !== undefined) return malformed(`${name} is duplicate`);
    if (!isFieldValue(value)) return malformed(`${name} contains a character that is not allowed in a field`);
    pseudo[name] = value;
  }
  const regular = fields.slice(index);
  const problem = pseudoFieldProblem(pseudo, allowsConnect) ?? fieldSectionError(regular);
  if (problem !== undefined) return malformed(problem);
  const { contentLength, awaitsContinue } = readFraming(regular);
  if (contentLength === "malformed") return malformed("content-length must be one decimal number");
  return {
    ok: true,
    value: {
      method: pseudo[":method"] ?? "",
      path: pseudo[":path"] ?? "",
      authority: pseudo[":authority"],
      protocol: pseudo[":protocol"],
      awaitsContinue,
      fields: regular,
      ...(contentLength === undefined ? {} : { contentLength }),
    },
  };
}

function isPseudoName(name: string): name is keyof PseudoFields {
  switch (name) {
    case ":method":
    case ":scheme":
    case ":path":
    case ":authority":
    case ":protocol":
      return true;
    default:
      return false;
  }
}

function pseudoFieldProblem(pseudo: PseudoFields, allowsConnect: boolean): string | undefined {
  if (pseudo[":protocol"] !== undefined && !allowsConnect) return ":protocol is not allowed in a request";
  if (pseudo[":method"] === "CONNECT" && pseudo[":protocol"] === undefined && allowsConnect) {
    // §8.5
    if ((pseudo[":authority"] ?? "") === "") return ":authority is missing";
    return pseudo[":scheme"] === undefined && pseudo[":path"] === undefined
      ? undefined
      : "CONNECT with :scheme or :path";
  }
  if (!isToken(pseudo[":method"] ?? "")) return ":method is not a token";
  for (const name of [":scheme", ":path"] as const) {
    if ((pseudo[name] ?? "") === "") return `${name} is missing`;
  }
  return undefined;
}

interface FramingFields {
  readonly contentLength: number | undefined | "malformed";
  readonly awaitsContinue: boolean;
}

function readFraming(fields: readonly string[]): FramingFields {
  let contentLength: FramingFields["contentLength"];
  let awaitsContinue = false;
  for (let index = 0; index < fields.length; index += 2) {
    const name = fields[index];
    if (name === "content-length") {
      const text = fields[index + 1] ?? "";
      contentLength = contentLength === undefined ? (readLength(text) ?? "malformed") : "malformed";
    } else if (name === "expect") {
      awaitsContinue = fields[index + 1]?.toLowerCase() === "100-continue";
    }
  }
  return { contentLength, awaitsContinue };
}
