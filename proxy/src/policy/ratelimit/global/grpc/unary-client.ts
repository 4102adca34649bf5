/** Unary gRPC calls as the rest of the limiter sees them, whatever carries them. */

import type { Backend } from "../../../../ir/snapshot.ts";

/** Where a service is. */
export type Endpoints = Pick<Backend, "endpoints" | "tls">;

export interface UnaryClient {
  /** Calls these endpoints from now on. */
  update(endpoints: Endpoints): void;
  /**
   * Sends one call. `done` hears of its end exactly once, at the latest after `timeoutMs`; within this very call only
   * where nothing can be sent.
   *
   * @param path `/package.Service/Method`
   * @param message of protobuf, without the framing of gRPC.
   */
  call(path: string, message: Buffer, timeoutMs: number, done: (outcome: CallOutcome) => void): void;
  /** Closes every connection; calls under way fail. */
  close(): void;
}

export type CallOutcome = { readonly kind: "answered"; readonly message: Buffer } | CallFailure;

/** Why there is no answer. */
export interface CallFailure {
  readonly kind: "failed";
  readonly cause: FailureCause;
  /** For the log: what was found, without anything of a request. */
  readonly message: string;
}

export type FailureCause =
  /** No answer in time. */
  | "timeout"
  /** No connection, one that broke off, or a service that says it cannot serve. */
  | "unavailable"
  /** The service answers that it failed, without saying whether that is this call's fault or its own (INTERNAL). */
  | "failed"
  /** The service answers and refuses the call as such: a setting is wrong, here or there. */
  | "rejected"
  /** The service is there, and the call is too large for it or one too many now. It may take the call later. */
  | "exhausted"
  /** What came is no answer. */
  | "garbage"
  /** The service answers that it does not know. */
  | "unknown";

export function callFailure(cause: FailureCause, message: string): CallFailure {
  return { kind: "failed", cause, message };
}
