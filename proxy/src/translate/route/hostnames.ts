/**
 * Intersects the host names of routes and listeners (Gateway API `HTTPRouteSpec.hostnames`). Names are in lower case. A
 * wildcard `*.example.com` matches one or more labels, so it covers `a.b.example.com`, but not `example.com`.
 */

/**
 * Returns the host names of the route that intersect that of the listener, or undefined if none does. Empty means every
 * host of the listener.
 */
export function commonHostnames(listener: string | undefined, route: readonly string[]): readonly string[] | undefined {
  if (listener === undefined) return [...new Set(route)];
  if (route.length === 0) return [];
  const common = new Set(route.filter((hostname) => covers(listener, hostname) || covers(hostname, listener)));
  return common.size === 0 ? undefined : [...common];
}

/** Whether every host of `narrow` is one of `wide`. */
export function covers(wide: string, narrow: string): boolean {
  if (wide === narrow) return true;
  // "www.example.com" and "*.sub.example.com" end with ".example.com", and "example.com" does not.
  return wide.startsWith("*.") && narrow.endsWith(wide.slice(1));
}
