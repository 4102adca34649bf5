/**
 * Keeps HTTPRoutes and GRPCRoutes apart (Gateway API `GRPCRouteSpec.hostnames`): where routes of both kinds at one
 * listener have host names in common, only one of them is accepted there: the oldest, then the first by namespace and
 * name.
 */
import { listSome } from "@gatewayproxy/runtime/bounded-text";
import type { RequestRouteKind } from "@gatewayproxy/runtime/route-key";
import type { RouteResource } from "../../api/resource.ts";
import type { Attachment, ParentState } from "./attachment.ts";

const otherKind: Readonly<Record<RequestRouteKind, RequestRouteKind>> = {
  HTTPRoute: "GRPCRoute",
  GRPCRoute: "HTTPRoute",
};

/** The host names of accepted routes at each listener. Routes must be passed in their order of precedence. */
export class KindConflicts {
  /** By kind and key of the listener. */
  readonly #claims = new Map<string, ClaimedHosts>();

  /**
   * Returns the parents of a route without the attachments to listeners that have an earlier route of the other kind
   * for some of its host names. A parent without attachments left rejects the route.
   *
   * @param isSupported whether the route can be accepted. The host names of others are not claimed.
   */
  resolve(route: RouteResource, parents: readonly ParentState[], isSupported: boolean): readonly ParentState[] {
    const resolved = parents.map((parent) => this.#withoutConflicts(route.kind, parent));
    if (isSupported) {
      for (const { attachments } of resolved) for (const each of attachments) this.#claim(route.kind, each);
    }
    return resolved;
  }

  #withoutConflicts(kind: RequestRouteKind, parent: ParentState): ParentState {
    const { attachments, path } = parent;
    const left = attachments.filter(({ listener, hostnames }) => {
      return this.#claims.get(`${otherKind[kind]} ${listener.key}`)?.overlaps(hostnames) !== true;
    });
    if (left.length === attachments.length) return parent;
    if (left.length > 0) {
      const lost = attachments.filter((each) => !left.includes(each)).map(({ listener }) => listener.listener.name);
      return { ...parent, attachments: left, lostListeners: lost };
    }
    const hosts = [...new Set(attachments.flatMap(({ hostnames }) => hostnames))];
    const ofHosts = hosts.length === 0 ? "all hosts" : listSome(hosts);
    const message = `an older ${otherKind[kind]}, or one that comes first by namespace and name, has some of the hosts of the route (${ofHosts}), and a listener serves HTTPRoutes or GRPCRoutes for a host, not both`;
    return { ...parent, attachments: [], rejection: { reason: "RouteKindConflict", message, path } };
  }

  #claim(kind: RequestRouteKind, { listener, hostnames }: Attachment): void {
    const key = `${kind} ${listener.key}`;
    const claimed = this.#claims.get(key) ?? new ClaimedHosts();
    this.#claims.set(key, claimed);
    claimed.add(hostnames);
  }
}

/** A set of host names, exact or with a wildcard, in lower case. */
class ClaimedHosts {
  #hasAll = false;
  readonly #names = new Set<string>();
  /** The wildcards that cover any of the names. */
  readonly #covering = new Set<string>();

  /** @param hostnames empty for every host. */
  add(hostnames: readonly string[]): void {
    if (hostnames.length === 0) this.#hasAll = true;
    for (const hostname of hostnames) {
      if (this.#names.has(hostname)) continue;
      this.#names.add(hostname);
      for (const wildcard of wildcardsAbove(hostname)) this.#covering.add(wildcard);
    }
  }

  /** Whether any host is one of the set. Takes time by the length of the names, not by the size of the set. */
  overlaps(hostnames: readonly string[]): boolean {
    if (this.#hasAll) return true;
    if (hostnames.length === 0) return this.#names.size > 0;
    return hostnames.some((hostname) => {
      if (this.#names.has(hostname) || this.#covering.has(hostname)) return true;
      return wildcardsAbove(hostname).some((wildcard) => this.#names.has(wildcard));
    });
  }
}

/** Returns the wildcards that cover a host name: `*.b.c` and `*.c` for `a.b.c`, `*.c` for `*.b.c`. */
function wildcardsAbove(hostname: string): readonly string[] {
  const wildcards: string[] = [];
  const from = hostname.startsWith("*.") ? 2 : 0;
  for (let dot = hostname.indexOf(".", from); dot !== -1; dot = hostname.indexOf(".", dot + 1)) {
    wildcards.push(`*${hostname.slice(dot)}`);
  }
  return wildcards;
}
