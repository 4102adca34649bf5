/** Converts the head of a request to HTTP/2 (RFC 9113 §8.2, §8.3.1; RFC 8441 §4). */
import { assertMethodAndPath, needsLength, repeatedField, requestBodyLength } from "../../client-request.ts";
import { firstLetterOf, isNamed, letters } from "../../fields.ts";
import { isFieldValue } from "../../http1/characters.ts";
import type { ClientRequest, FieldList } from "../../ports.ts";
import { appendFields } from "../outgoing-fields.ts";

/** A head to send. */
export interface RequestFields {
  /** Pseudo-header fields and fields, names in lower case. */
  readonly fields: FieldList;
  /** The length of the body; undefined for a body that arrives in parts and has no content-length. */
  readonly bodyLength: number | undefined;
  /** The `sec-websocket-key`, which HTTP/2 does not send (RFC 8441 §5); undefined if there is none. */
  readonly webSocketKey: string | undefined;
}

/**
 * Returns the head of a request. A requested switch of protocols becomes an extended CONNECT.
 *
 * @throws `TypeError` for an invalid method, path or field, or a `content-length` other than the length of the body.
 */
export function requestFields(request: ClientRequest, scheme: "http" | "https"): RequestFields {
  assertMethodAndPath(request);
  const { method, path, body, upgrade } = request;
  if (method === "CONNECT") throw new TypeError("the request has the method CONNECT without a protocol to switch to");
  const { host, announced, webSocketKey, kept } = sorted(request);
  const head = [":method", upgrade === undefined ? method : "CONNECT", ":scheme", scheme];
  if (host !== undefined) head.push(":authority", host);
  head.push(":path", path);
  if (upgrade !== undefined) head.push(":protocol", upgrade.toLowerCase());
  appendFields(head, kept);
  const bodyLength = requestBodyLength(body, announced);
  if (upgrade === undefined && needsLength(method, bodyLength, announced)) {
    head.push("content-length", String(bodyLength));
  }
  return { fields: head, bodyLength, webSocketKey };
}

/** The fields of a request, with those apart that HTTP/2 sends in another form. */
interface SortedFields {
  host: string | undefined;
  /** The value of content-length, which `kept` contains too. */
  announced: string | undefined;
  webSocketKey: string | undefined;
  readonly kept: string[];
}

function sorted({ fields, upgrade }: ClientRequest): SortedFields {
  const found: SortedFields = { host: undefined, announced: undefined, webSocketKey: undefined, kept: [] };
  for (let at = 0; at + 1 < fields.length; at += 2) {
    const name = fields[at] ?? "";
    const value = fields[at + 1] ?? "";
    if (!isTakenOut(name, value, upgrade, found)) found.kept.push(name, value);
  }
  return found;
}

function isTakenOut(name: string, value: string, upgrade: string | undefined, found: SortedFields): boolean {
  switch (firstLetterOf(name)) {
    case letters.c:
      if (!isNamed(name, "content-length")) return false;
      if (found.announced !== undefined) throw repeatedField("Content-Length");
      found.announced = value;
      // The bytes after the head of a tunnel are not a body.
      return upgrade !== undefined;
    case letters.h:
      if (!isNamed(name, "host")) return false;
      if (found.host !== undefined) throw repeatedField("Host");
      if (!isFieldValue(value)) throw new TypeError("the Host field has a value with a control character");
      found.host = value;
      return true;
    case letters.s:
      if (upgrade === undefined || !isNamed(name, "sec-websocket-key")) return false;
      found.webSocketKey = value;
      return true;
    case letters.t:
      // The only value that HTTP/2 allows (§8.2.2).
      return isNamed(name, "te") && value.toLowerCase() !== "trailers";
    default:
      return false;
  }
}
