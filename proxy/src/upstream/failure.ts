/**
 * Why a call to a backend did not end well, told apart by what a caller may do about it: a connection that was never
 * made can be tried elsewhere, an answer that broke off can not.
 */
import { forbiddenAddress } from "../connect/guarded-lookup.ts";

export interface UpstreamFailure {
  readonly kind: /** No connection: refused, unreachable, name not found, TLS refused. Nothing was sent. */
    | "connect"
    /** The connection broke after the request was (perhaps partly) sent. */
    | "reset"
    /** The endpoint kept silent for too long. */
    | "timeout"
    /** We gave up ourselves, or the client broke its upload off. */
    | "aborted"
    /** The endpoint leaves, or is full, and has not looked at the request (HTTP/2). */
    | "refused"
    /** No connection became free in time: nothing was sent. */
    | "overloaded"
    /** The address is one that nothing may connect to, or the name resolves to no other: nothing was sent. */
    | "forbidden"
    /** It cannot be written as HTTP (a method or a field that would be taken for something else): nothing was sent. */
    | "unsendable";
  /** For the log; never shown to clients. */
  readonly message: string;
}

/** The code of an error with which a request's body ends where the client has broken it off. */
export const uploadBrokenOff = "ERR_UPLOAD_BROKEN_OFF";

/** The code of the error of a call that its endpoint has not looked at. */
export const refusedByEndpoint = "ERR_REFUSED_BY_ENDPOINT";

/** undici and Node name their causes by `code`; all others are a connection that broke. */
const kindByCode: Readonly<Record<string, UpstreamFailure["kind"]>> = {
  UND_ERR_CONNECT_TIMEOUT: "connect",
  UND_ERR_HEADERS_TIMEOUT: "timeout",
  UND_ERR_BODY_TIMEOUT: "timeout",
  UND_ERR_ABORTED: "aborted",
  UND_ERR_INVALID_ARG: "unsendable",
  [uploadBrokenOff]: "aborted",
  [refusedByEndpoint]: "refused",
  [forbiddenAddress]: "forbidden",
};

/** Kinds that say all, whether or not there was a connection. */
const needsNoConnection: ReadonlySet<UpstreamFailure["kind"]> = new Set(["unsendable", "refused", "forbidden"]);

/**
 * Sorts an error of the transport.
 *
 * @param started whether the request had been handed to a live connection.
 */
export function toUpstreamFailure(error: unknown, started: boolean): UpstreamFailure {
  const code = errorCode(error);
  const message =
    error instanceof Error ? (code === undefined ? error.message : `${code}: ${error.message}`) : String(error);
  const kind = code === undefined ? undefined : kindByCode[code];
  // Before a connection is there, a timeout is one of connecting too.
  if (!started && (kind === undefined || !needsNoConnection.has(kind))) return { kind: "connect", message };
  return { kind: kind ?? "reset", message };
}

function errorCode(error: unknown): string | undefined {
  if (typeof error !== "object" || error === null || !("code" in error)) return undefined;
  return typeof error.code === "string" ? error.code : undefined;
}
