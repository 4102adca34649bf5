/** Converts attributes to those of the OpenTelemetry SDK. */
import type { Attributes } from "@opentelemetry/api";
import type { SpanAttributes } from "./span.ts";

/** Returns the attributes that have a value. */
export function attributesOf(attributes: SpanAttributes): Attributes {
  const present: Attributes = {};
  for (const name in attributes) {
    const value = attributes[name];
    if (value !== undefined) present[name] = typeof value === "object" ? [...value] : value;
  }
  return present;
}
