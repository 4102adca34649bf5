/** The rules for requests of every protocol (RFC 9110 §7.1, §8.6, §9.1). */
import { readLength } from "./content-length.ts";
import { isTarget, isToken } from "./http1/characters.ts";
import type { ClientRequest } from "./ports.ts";

/** Throws `TypeError` for a method that is not a token, or a path with other characters than visible ASCII. */
export function assertMethodAndPath({ method, path }: ClientRequest): void {
  if (!isToken(method)) {
    throw new TypeError(`the request has the method ${JSON.stringify(method)}, which is not a token`);
  }
  if (!isTarget(path)) {
    throw new TypeError("the request has an empty path, or one with a character that is not visible ASCII");
  }
}

/** Returns the error for a field that a request may have once. @param name as in the RFC. */
export function repeatedField(name: "Host" | "Content-Length"): TypeError {
  return new TypeError(`the request has more than one ${name} field`);
}

/**
 * Returns the length of the body of a request; undefined for a body that arrives in parts and has no Content-Length.
 *
 * @param announced the value of the request's Content-Length field; undefined if it has none.
 * @throws `TypeError` for a Content-Length that is not a number of bytes, or differs from the length of the body.
 */
export function requestBodyLength(body: ClientRequest["body"], announced: string | undefined): number | undefined {
  if (body !== undefined && !Buffer.isBuffer(body)) {
    return announced === undefined ? undefined : lengthOf(announced);
  }
  const bytes = body?.length ?? 0;
  if (announced !== undefined && lengthOf(announced) !== bytes) {
    throw new TypeError(`the request has the Content-Length ${announced}, and a body of ${bytes} bytes`);
  }
  return bytes;
}

function lengthOf(announced: string): number {
  const length = readLength(announced);
  if (length !== undefined) return length;
  throw new TypeError(
    `the request has the Content-Length ${JSON.stringify(announced)}, which is not a number of bytes`,
  );
}

/** Methods whose requests get a Content-Length even without a body. */
const methodsWithBody: ReadonlySet<string> = new Set(["POST", "PUT", "PATCH"]);

/** Whether a Content-Length field must be added to a request. @param length the result of `requestBodyLength`. */
export function needsLength(method: string, length: number | undefined, announced: string | undefined): boolean {
  return announced === undefined && length !== undefined && (length > 0 || methodsWithBody.has(method));
}
