/**
 * Divides the limit of open files of a process, and the local ports of its host, among the sockets that clients cause
 * it to open. Five of 32 parts of the files are left for the servers of operators, for calls of services, and for
 * files. Without this, the sockets of one client could be all that the process has.
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
  /** That listen on a TCP port. */
  readonly listening: number;
  /** The local ports towards one endpoint that closed connections may keep. */
  readonly keptPorts: number;
}

/** What the process has. */
export interface ProcessSockets {
  /** The limit of open files; undefined: none. */
  readonly openFiles: number | undefined;
  /** The number of local ports from which the system chooses. */
  readonly localPorts: number;
}

const connectionPart = 1 / 2;
const endpointsPart = 7 / 32;
const otherPart = 1 / 8;
const keptPortsPart = 3 / 4;
/** As many connections are accepted in a turn of the event loop. */
const mostListening = 8;
/** Open files of a worker for each listening socket of a port. A proxy may have hundreds of ports. */
const filesPerListening = 2_500;

/** @returns the sockets of each worker. */
export function socketPlan(
  { openFiles = Number.POSITIVE_INFINITY, localPorts }: ProcessSockets,
  workers: number,
): SocketPlan {
  const share = (part: number): number => Math.max(1, Math.floor((openFiles * part) / workers));
  const other = share(otherPart);
  return {
    connections: share(connectionPart),
    listening: Math.min(Math.max(1, Math.floor(openFiles / workers / filesPerListening)), mostListening),
    sessions: other,
    toEndpoints: share(endpointsPart),
    toEndpoint: other,
    tunnelsToEndpoint: other,
    keptPorts: Math.max(1, Math.floor((localPorts * keptPortsPart) / workers)),
  };
}
