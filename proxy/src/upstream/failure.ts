/**
 * Why a call to a backend failed, by what a caller can do: a failed connection can be retried on another endpoint, a truncated
 * response cannot.
 */
import { forbiddenAddress } from "../connect/guarded-lookup.ts";

/** The failure of an attempt; `kind` decides about retries and about the local reply. */
export interface UpstreamFailure {
  readonly kind: /** No connection: connection refused, unreachable, name not found, TLS failure. Nothing was sent. */
    | "connect"
    /** The connection ended after the request was sent, perhaps partly. */
    | "reset"
    /** The endpoint sent nothing for too long. */
    | "timeout"
    /** The proxy aborted the call, or the client aborted its upload. */
    | "aborted"
    /** The endpoint leaves, or is full, and has not processed the request (HTTP/2). */
    | "unprocessed"
    /** No connection became available in time. Nothing was sent. */
    | "overloaded"
    /** The proxy must not connect to the address, or to any address of the name. Nothing was sent. */
    | "forbidden"
    /** The request has a method or a field that is not valid in HTTP. Nothing was sent. */
    | "unsendable";
  /** For the log; never shown to clients. */
  readonly message: string;
}

/** The code of the error with which the body of a request ends if the client aborts it. */
export const uploadAborted = "ERR_UPLOAD_ABORTED";

/** The code of the error of a call that its endpoint has not processed. */
export const unprocessedByEndpoint = "ERR_UNPROCESSED_BY_ENDPOINT";

/** The kinds of failures by the `code` of undici and Node. Any other error is a broken connection. */
const kindByCode: Readonly<Record<string, UpstreamFailure["kind"]>> = {
  UND_ERR_CONNECT_TIMEOUT: "connect",
  UND_ERR_HEADERS_TIMEOUT: "timeout",
  UND_ERR_BODY_TIMEOUT: "timeout",
  UND_ERR_ABORTED: "aborted",
  UND_ERR_INVALID_ARG: "unsendable",
  [uploadAborted]: "aborted",
  [unprocessedByEndpoint]: "unprocessed",
  [forbiddenAddress]: "forbidden",
};

/** Kinds that do not depend on whether there was a connection. */
const needsNoConnection: ReadonlySet<UpstreamFailure["kind"]> = new Set(["unsendable", "unprocessed", "forbidden"]);

/**
 * Classifies an error of the transport.
 *
 * @param started whether the request had been assigned to an open connection.
 */
export function toUpstreamFailure(error: unknown, started: boolean): UpstreamFailure {
  const code = errorCode(error);
  const message =
    error instanceof Error ? (code === undefined ? error.message : `${code}: ${error.message}`) : String(error);
  const kind = code === undefined ? undefined : kindByCode[code];
  // Before the connection is open, a timeout is also one of connecting.
  if (!started && (kind === undefined || !needsNoConnection.has(kind))) return { kind: "connect", message };
  return { kind: kind ?? "reset", message };
}

function errorCode(error: unknown): string | undefined {
  if (typeof error !== "object" || error === null || !("code" in error)) return undefined;
  return typeof error.code === "string" ? error.code : undefined;
}

/** Classifies an error of connecting. */
export function connectFailure(error: unknown): UpstreamFailure {
  return toUpstreamFailure(error instanceof AggregateError ? (error.errors[0] ?? error) : error, false);
}

/** Classifies an error for a request that is not valid in HTTP. */
export function unsendable(error: unknown): UpstreamFailure {
  return { kind: "unsendable", message: error instanceof Error ? error.message : String(error) };
}
