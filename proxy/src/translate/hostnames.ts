/**
 * Where a route's host names and a listener's meet (Gateway API `HTTPRouteSpec.hostnames`). Names are lower case; a
 * wildcard `*.example.com` stands for one label or more, so it covers `a.b.example.com` and not `example.com`.
 */

/**
 * Those of the route's host names that have hosts in common with the listener's, or undefined where none has. Empty:
 * every host of the listener.
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
  // ".example.com" ends "www.example.com" and "*.sub.example.com", and not "example.com".
  return wide.startsWith("*.") && narrow.endsWith(wide.slice(1));
}
