/** What the clients of a server may use together, unless a setting says otherwise. */

/** Connections to a port. Envoy has one a worker thread: room for some hundred of them. */
export const defaultMaxConnections = 4_096;

/** Bytes of unread answers and open calls. Eight connections may hold what one may at most. */
export const defaultMaxConnectionMemory = 67_108_864;
