/** From a request that a bind receives to the stages of its route. */
import type { Downstream, DownstreamEvents } from "../listen/downstream.ts";
import type { RequestRules } from "../listen/request-head.ts";
import { Exchange, type ExchangeServices } from "../pipeline/exchange.ts";
import { misdirected } from "../pipeline/local-replies.ts";
import { routedModel } from "../pipeline/requested-model.ts";
import type { Pipeline } from "../pipeline/stages.ts";
import type { RouteIndex } from "../routing/compile-routes.ts";
import type { BindStreams } from "../streams/bind-streams.ts";
import { type RouteSelection, selectRoute } from "./select-route.ts";

/** What the requests of a bind need. */
export interface RequestBind {
  readonly services: ExchangeServices;
  /** The current routes. */
  readonly routes: RouteIndex<Pipeline>;
  readonly rules: Pick<RequestRules, "path">;
  /** Has the hosts of TLSRoutes, for which no HTTP request is served. */
  readonly streams: Pick<BindStreams, "hasHost">;
}

/** Serves a request by the routes of its bind. */
export function serveRequest(bind: RequestBind, downstream: Downstream): DownstreamEvents {
  const exchange = new Exchange(bind.services, downstream);
  try {
    beginAt(bind, exchange, downstream);
  } catch (error) {
    exchange.fault(error);
  }
  return exchange;
}

function beginAt({ routes, rules, streams }: RequestBind, exchange: Exchange, { head, connection }: Downstream): void {
  if (streams.hasHost(head.authority)) {
    exchange.reject(misdirected, undefined);
    return;
  }
  const selection = selectRoute(routes, head, connection, rules.path);
  if (selection.kind !== "needsModel") {
    begin(exchange, selection);
  } else {
    exchange.readModel(selection.listener, (read) => {
      begin(
        exchange,
        selectRoute(routes, head, connection, rules.path, (path) => routedModel(read, path)),
      );
    });
  }
}

function begin(exchange: Exchange, selection: RouteSelection): void {
  if (selection.kind === "selected") exchange.serve(selection.match, selection.listener);
  else if (selection.kind === "rejected") exchange.reject(selection.reply, selection.listener);
  else throw new Error("a rule depends on the model of the request, which has been read");
}
