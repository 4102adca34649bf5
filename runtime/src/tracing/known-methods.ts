/**
 * The methods that spans and metrics show as they are: those of RFC 9110 §9, and PATCH (RFC 5789). Clients may send any
 * other token (conventions of OpenTelemetry, `http.request.method`).
 */
export const knownMethods: readonly string[] = [
  ...["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"],
];

/** Returns a method that is shown as it is; undefined for any other. */
export function knownMethod(method: string): string | undefined {
  return knownMethods.includes(method) ? method : undefined;
}
