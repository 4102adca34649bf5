/** Describes the tasks of a worker for operators: listeners, their connections, and the requests on each. */
import type { Task } from "@gatewayproxy/admin-api/tasks";
import type { OpenConnection } from "../listen/bind-server.ts";
import type { Exchange } from "../pipeline/exchange.ts";

/** The connections and requests of a bind. */
export interface BindActivity {
  /** `address:port` */
  readonly name: string;
  readonly connections: readonly OpenConnection[];
  readonly exchanges: Iterable<Exchange>;
  /** Whether the bind is no longer in the snapshot and waits for its last connection to close. */
  readonly isDraining: boolean;
}

/** Returns the task of a bind, with a child for each connection. @param nowMs monotonic. */
export function describeBind({ name, connections, exchanges, isDraining }: BindActivity, nowMs: number): Task {
  const requests = Map.groupBy(exchanges, ({ connection }) => connection.peer);
  return {
    kind: "listener",
    name,
    detail: { connections: connections.length, isDraining },
    children: connections.map(({ peer, sinceMs }) => ({
      kind: "connection",
      name: peer,
      ageMs: Math.max(0, nowMs - sinceMs),
      children: (requests.get(peer) ?? []).map((exchange) => exchange.describe(nowMs)),
    })),
  };
}
