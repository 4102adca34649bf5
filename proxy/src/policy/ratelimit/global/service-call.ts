/** The outcome of a call to a service, and its observers. */
import type { CallFailure } from "@gatewayproxy/grpc/client/unary-client";
import type { RateLimitResponse } from "./messages.ts";

/** The decoded response of a service, or the failure. */
export type ServiceOutcome = { readonly kind: "responded"; readonly response: RateLimitResponse } | CallFailure;

/** A call in progress. */
export interface ObservedCall {
  /** Fields to send with the call: names in lower case and values, in turn. */
  readonly fields: readonly string[];
  /** Called at most once. */
  ended(response: ServiceOutcome): void;
}

/** Called when a call is sent. */
export type ObserveCall = () => ObservedCall | undefined;
