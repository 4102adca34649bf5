/** The option `--trace-id`. */
import { acceptedTraceReference, parseTraceReference } from "@gatewayproxy/runtime/trace-context";
import { InvalidArgumentError } from "commander";

/** A trace, and the place in it that a `traceparent` names. */
export type TraceReference = NonNullable<ReturnType<typeof parseTraceReference>>;

/** Parses a trace id or a `traceparent`. Throws commander's error for any other text. */
export function parseTraceIdOption(text: string): TraceReference {
  const reference = parseTraceReference(text);
  if (reference !== undefined) return reference;
  throw new InvalidArgumentError(`accepted is ${acceptedTraceReference}`);
}
