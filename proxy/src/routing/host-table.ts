/**
 * Finds the value for a host name: the value of the exact name, else of the longest wildcard, else of every host
 * (Gateway API `Listener.hostname`, `HTTPRouteSpec.hostnames`). Listeners and routes share these rules.
 */

/** A DNS name has at most 253 characters (RFC 1035 §2.3.4); a longer host causes no wildcard look-ups. */
const maxHostLength = 253;

/**
 * Returns the host of a request authority: lower case, without port and without the trailing dot of a full DNS name.
 */
export function hostOf(authority: string): string {
  const colon = authority.lastIndexOf(":");
  // A colon before a `]` belongs to an IPv6 literal; only a colon after it begins a port.
  let end = colon > authority.lastIndexOf("]") ? colon : authority.length;
  if (authority.charAt(end - 1) === ".") end--;
  return authority.slice(0, end).toLowerCase();
}

/** Values by host name, in lower case. A look-up takes at most one step for each label of the host. */
export class HostTable<T> {
  readonly #exact: Map<string, T>;
  /** By the part after the asterisk, with its dot: `.example.com`. */
  readonly #wildcard: Map<string, T>;
  #any: T | undefined;

  /** Without parameters, an empty table. */
  constructor(exact: Iterable<[string, T]> = [], wildcard: Iterable<[string, T]> = [], any?: T) {
    this.#exact = new Map(exact);
    this.#wildcard = new Map(wildcard);
    this.#any = any;
  }

  /** Adds the value of `hostname` (undefined: every host). The first of equal hostnames is kept. */
  add(hostname: string | undefined, value: T): void {
    if (hostname === undefined) this.#any ??= value;
    else if (hostname.startsWith("*.")) setFirst(this.#wildcard, hostname.slice(1), value);
    else setFirst(this.#exact, hostname, value);
  }

  /** Removes the value of `hostname`. */
  delete(hostname: string | undefined): void {
    if (hostname === undefined) this.#any = undefined;
    else if (hostname.startsWith("*.")) this.#wildcard.delete(hostname.slice(1));
    else this.#exact.delete(hostname);
  }

  /** Returns a table with the same values. */
  copy(): HostTable<T> {
    return new HostTable(this.#exact, this.#wildcard, this.#any);
  }

  /** Returns the most specific value for the host of `authority`. */
  find(authority: string): T | undefined {
    if (this.#exact.size === 0 && this.#wildcard.size === 0) return this.#any;
    const host = hostOf(authority);
    return this.#exact.get(host) ?? this.#findWildcard(host);
  }

  /** Returns the next less specific value for the hosts that `hostname`, a member of this table, covers. */
  findLessSpecific(hostname: string | undefined): T | undefined {
    if (hostname === undefined) return undefined;
    return this.#findWildcard(hostname.startsWith("*.") ? hostname.slice(2) : hostname);
  }

  #findWildcard(host: string): T | undefined {
    if (this.#wildcard.size === 0 || host.length > maxHostLength) return this.#any;
    // Begins at 1, because the asterisk stands for at least one label.
    for (let dot = host.indexOf(".", 1); dot !== -1; dot = host.indexOf(".", dot + 1)) {
      const found = this.#wildcard.get(host.slice(dot));
      if (found !== undefined) return found;
    }
    return this.#any;
  }
}

function setFirst<T>(map: Map<string, T>, key: string, value: T): void {
  if (!map.has(key)) map.set(key, value);
}
