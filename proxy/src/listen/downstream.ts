/** A request of a client in any protocol, as the pipeline receives it from `client-request.ts`. */
import type { ServerExchange, ServerExchangeEvents } from "@gatewayproxy/http/ports";
import type { Connection } from "./connection.ts";
import type { HeadFault, RequestHead } from "./request-head.ts";

/** Receives the requests of a bind. */
export interface RequestReceiver {
  /** Called for each request. Returns the receiver of its events. */
  readonly onRequest: (downstream: Downstream) => DownstreamEvents;
  /** Called for each request with an invalid head, after its response. */
  readonly onRejected: (request: RejectedRequest) => void;
}

/** A request with a rejected head. Parts of the head that could not be read are empty. */
export interface RejectedRequest {
  readonly connection: Connection;
  readonly httpVersion: string;
  readonly method: string;
  /** As received. */
  readonly target: string;
  /** Names and values alternate, as received. */
  readonly rawHeaders: readonly string[];
  readonly fault: HeadFault;
}

/** A request of a client, and the means to respond to it. */
export interface Downstream {
  /** The head after normalization by the rules of requests. */
  readonly head: RequestHead;
  /** The connection of the request; several requests share it. */
  readonly connection: Connection;
  /**
   * The protocol to which the client requests a switch, such as `websocket` (RFC 9110 §7.8, RFC 8441): any response
   * rejects it, `ServerExchange.switchProtocols` accepts it. Absent in nearly every request; there is no body where it
   * is present.
   */
  readonly upgrade: string | undefined;
  /** The body of the request, and the methods that respond to it. */
  readonly exchange: ServerExchange;
}

/** Receives the events of the client while its request is in progress. */
export type DownstreamEvents = ServerExchangeEvents;
