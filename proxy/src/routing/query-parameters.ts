/**
 * Query parameters that occur several times. Servers disagree about the value that counts: the first (Go, Flask), the
 * last (PHP, Django, Starlette), or all of them (Express). A request must not be accepted because of a value that the
 * backend does not read.
 */

/** `all`: every name. */
export type ParameterNames = ReadonlySet<string> | "all";

/**
 * Whether a parameter among `names` occurs twice with different values.
 *
 * @param target path and query.
 */
export function hasConflictingParameter(target: string, names: ParameterNames): boolean {
  const queryStart = target.indexOf("?");
  if (queryStart === -1 || (names !== "all" && names.size === 0)) return false;
  const values = new Map<string, string>();
  for (const [name, value] of new URLSearchParams(target.slice(queryStart + 1))) {
    if (names !== "all" && !names.has(name)) continue;
    const before = values.get(name);
    if (before !== undefined && before !== value) return true;
    values.set(name, value);
  }
  return false;
}
