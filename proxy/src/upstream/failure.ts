/**
 * Why a call to a backend failed, by what a caller can do: a failed connection can be retried on another endpoint, a
 * truncated response cannot.
 */
import { errorMessage } from "@gatewayproxy/runtime/thrown-value";
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
    /** No connection became available in time, or this machine has a shortage (`isLocalShortage`). Nothing was sent. */
    | "overloaded"
    /** The proxy must not connect to the address, or to any address of the name. Nothing was sent. */
    | "forbidden"
    /** The request has a method or a field that is not valid in HTTP. Nothing was sent. */
    | "unsendable";
  /** For the log; never shown to clients. */
  readonly message: string;
  /** The endpoint has got the request, and the proxy has ended the call in favor of another one (`overloaded`). */
  readonly isDisplaced?: boolean;
  /** As `ClientFailure.isExhausted`. */
  readonly isExhausted?: boolean;
  /** As `ClientFailure.isStreamRejected`. */
  readonly isStreamRejected?: boolean;
  /** As `ClientFailure.isRejected`. */
  readonly isRejected?: boolean;
  /** As `ClientFailure.isUpload`. */
  readonly isUpload?: boolean;
}

/** Codes of errors that report a shortage of open files, ports or memory. */
const localShortages: ReadonlySet<string> = new Set([
  "EMFILE",
  "ENFILE",
  "ENOBUFS",
  "ENOMEM",
  "EAGAIN",
  "EADDRNOTAVAIL",
]);

/** Whether this process or its machine has no open file, port or memory left, which says nothing about an endpoint. */
export function isLocalShortage(error: unknown): boolean {
  return localShortages.has(errorCode(error) ?? "");
}

/** Classifies an error of connecting. */
export function connectFailure(error: unknown): UpstreamFailure {
  // Node tries several addresses of a name, and reports all errors.
  const first: unknown = error instanceof AggregateError ? (error.errors[0] ?? error) : error;
  const code = errorCode(first);
  const kind = code === forbiddenAddress ? "forbidden" : isLocalShortage(first) ? "overloaded" : "connect";
  if (!(first instanceof Error)) return { kind, message: String(first) };
  return { kind, message: code === undefined ? first.message : `${code}: ${first.message}` };
}

/**
 * Whether a failure counts against the endpoint: not if the call was aborted or not sent, if the endpoint leaves, or if
 * it has rejected what the client has sent.
 */
export function saysSomethingOfTheEndpoint({ kind, isRejected }: UpstreamFailure): boolean {
  return (
    isRejected !== true && kind !== "aborted" && kind !== "overloaded" && kind !== "unprocessed" && kind !== "forbidden"
  );
}

function errorCode(error: unknown): string | undefined {
  if (typeof error !== "object" || error === null || !("code" in error)) return undefined;
  return typeof error.code === "string" ? error.code : undefined;
}

/** Classifies an error for a request that is not valid in HTTP. */
export function unsendable(error: unknown): UpstreamFailure {
  return { kind: "unsendable", message: errorMessage(error) };
}
