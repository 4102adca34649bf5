/**
 * Where a route's host names and a listener's meet (Gateway API `HTTPRouteSpec.hostnames`). Names are lower case; a
 * wildcard `*.example.com` stands for one label or more, so it covers `a.b.example.com` and not `example.com`.
 */

/**
 * The route's host names as this listener serves them, or undefined where they have none in common. Empty: every host
 * of the listener.
 */
export function intersectHostnames(
  listener: string | undefined,
  route: readonly string[],
): readonly string[] | undefined {
  if (listener === undefined) return [...new Set(route)];
  if (route.length === 0) return [];
  const common = new Set(route.flatMap((hostname) => intersect(listener, hostname) ?? []));
  return common.size === 0 ? undefined : [...common];
}

/** The narrower of two names, if one covers the other. */
function intersect(a: string, b: string): string | undefined {
  if (covers(a, b)) return b;
  return covers(b, a) ? a : undefined;
}

/** Whether every host of `narrow` is one of `wide`. */
function covers(wide: string, narrow: string): boolean {
  if (wide === narrow) return true;
  // ".example.com" ends "www.example.com" and "*.sub.example.com", and not "example.com".
  return wide.startsWith("*.") && narrow.endsWith(wide.slice(1));
}
