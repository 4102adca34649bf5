/**
 * Divides the limit of open files of a process among the sockets that clients cause it to open. Five of 32 parts are
 * left for the servers of operators, for calls of services, and for files. Without this, the sockets of one client
 * could be all that the process has.
 */

/** The most sockets of each worker. Infinity: without a limit. */
export interface SocketPlan {
  /** Of connections of clients, and of relayed ones to their backends. */
  readonly connections: number;
  /** Of UDP sessions. */
  readonly sessions: number;
  /** Of requests to all endpoints, and of tunnels. */
  readonly toEndpoints: number;
  /** Of requests to one endpoint. */
  readonly toEndpoint: number;
  /** Of tunnels to one endpoint. */
  readonly tunnelsToEndpoint: number;
}

const connectionPart = 1 / 2;
const endpointsPart = 7 / 32;
const otherPart = 1 / 8;

/** @param openFiles of the process; undefined for no limit. */
export function socketPlan(openFiles = Number.POSITIVE_INFINITY, workers = 1): SocketPlan {
  const share = (part: number): number => Math.max(1, Math.floor((openFiles * part) / workers));
  const other = share(otherPart);
  return {
    connections: share(connectionPart),
    sessions: other,
    toEndpoints: share(endpointsPart),
    toEndpoint: other,
    tunnelsToEndpoint: other,
  };
}
