/**
 * Finds stream routes that get no connections, or none for some of their host names, since an older route of the
 * listener has them. Routes of streams have no matches other than host names, so one route of a TCP or UDP listener
 * gets everything.
 */
import { listSome } from "@gatewayproxy/runtime/bounded-text";
import type { Steps } from "@gatewayproxy/runtime/steps";
import type { StreamRouteResource } from "../../api/resource.ts";
import type { ConflictDecision } from "../../api/status.ts";
import { nameKey } from "../index/object-names.ts";
import type { Attachment } from "./attachment.ts";
import { kindWithArticle } from "./route-conflicts.ts";
import type { StreamsByListener } from "./routes.ts";
import type { StreamRouteState } from "./stream-routes.ts";

/** What a route loses to others. */
export interface StreamLoss {
  /** Whether it gets no connection at all. */
  readonly isWhole: boolean;
  readonly reason: Extract<ConflictDecision, "OlderRoute" | "NameOrder">;
  /** For the owner of the route: routes of other namespaces are not named. */
  readonly message: string;
}

/** For every host of the listener. */
const everyHost = "";

/** The losses of all stream routes. */
export class StreamConflicts {
  /** By listener and host name: the route that gets the connections. */
  readonly #winners: ReadonlyMap<string, ReadonlyMap<string, StreamRouteResource>>;

  constructor(winners: ReadonlyMap<string, ReadonlyMap<string, StreamRouteResource>>) {
    this.#winners = winners;
  }

  /** Returns what a route loses at the programmed ones of these listeners together; undefined if it loses nothing. */
  lossOf({ route }: StreamRouteState, attachments: readonly Attachment[]): StreamLoss | undefined {
    const lost: { readonly port: number; readonly host: string; readonly winner: StreamRouteResource }[] = [];
    let hosts = 0;
    for (const { listener, hostnames } of attachments) {
      if (!listener.isProgrammed) continue;
      const winners = this.#winners.get(listener.key);
      for (const host of hostsOf(hostnames)) {
        hosts++;
        const winner = winners?.get(host);
        if (winner !== undefined && winner !== route) lost.push({ port: listener.listener.port, host, winner });
      }
    }
    const [first] = lost;
    if (first === undefined) return undefined;
    const { winner } = first;
    const isOlder = winner.metadata.creationTimestamp !== route.metadata.creationTimestamp;
    const why = isOlder ? "it is older" : "it comes first by namespace and name";
    const who =
      winner.metadata.namespace === route.metadata.namespace
        ? `${winner.kind} ${nameKey(winner)}`
        : `${kindWithArticle(winner.kind)} of another namespace`;
    const isWhole = lost.length === hosts;
    const named = new Set(lost.flatMap(({ host }) => (host === everyHost ? [] : [host])));
    const part =
      named.size > 0
        ? ` for ${listSome([...named])}`
        : ` to port ${listSome([...new Set(lost.map(({ port }) => String(port)))])}`;
    const message = `no connection${isWhole ? "" : part} reaches the route: ${who} takes precedence, since ${why}`;
    return { isWhole, reason: isOlder ? "OlderRoute" : "NameOrder", message };
  }
}

/** Finds the conflicts. @param streams in the order of precedence. */
export function* resolveStreamConflicts(streams: StreamsByListener): Steps<StreamConflicts> {
  const winners = new Map<string, ReadonlyMap<string, StreamRouteResource>>();
  for (const [listener, attached] of streams) {
    const ofListener = new Map<string, StreamRouteResource>();
    for (const { state, attachment } of attached.flat()) {
      for (const host of hostsOf(attachment.hostnames)) {
        if (!ofListener.has(host)) ofListener.set(host, state.route);
      }
      yield;
    }
    winners.set(listener, ofListener);
  }
  return new StreamConflicts(winners);
}

function hostsOf(hostnames: readonly string[]): readonly string[] {
  return hostnames.length === 0 ? [everyHost] : hostnames;
}
