/** Default bounds on the resources of all clients of a server together. */

/** Connections to a port. Envoy has one per worker thread, so this is enough for some hundred Envoys. */
export const defaultMaxConnections = 4_096;

/** Bytes of unread responses and open calls. This is eight times the maximum of one connection. */
export const defaultMaxConnectionMemory = 67_108_864;
