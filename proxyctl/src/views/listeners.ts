/** The listeners of `proxyctl config all`, with their state and their routes. */
import type { ConfigDump, DumpedBind } from "@gatewayproxy/admin-api/config-dump";
import type { Column } from "../output/table.ts";

/** A listener and its socket address. */
export interface ListenerRow {
  readonly bind: DumpedBind;
  readonly listener: DumpedBind["listeners"][number];
}

/** Returns rows in the order of the dump. */
export function listenerRows({ binds }: Pick<ConfigDump, "binds">): readonly ListenerRow[] {
  return binds.flatMap((bind) => bind.listeners.map((listener) => ({ bind, listener })));
}

/** The columns of listeners. */
export const listenerColumns: readonly Column<ListenerRow>[] = [
  { head: "LISTENER", whenNarrow: "wrap", cell: ({ listener }) => listener.key },
  { head: "PROTOCOL", cell: ({ listener }) => listener.protocol },
  { head: "ADDRESS", whenNarrow: "wrap", cell: ({ bind }) => bind.key },
  { head: "HOSTNAME", whenNarrow: "wrap", cell: ({ listener }) => listener.hostname ?? "*" },
  { head: "ROUTES", cell: ({ listener }) => String(listener.routes.length) },
  { head: "STATUS", cell: ({ bind }) => (bind.isOpen ? "open" : "closed") },
];

/** Returns why the proxy does not listen there. */
export function listenerNotes({ bind }: ListenerRow): readonly string[] {
  return bind.isOpen ? [] : [bind.fault ?? "it does not listen"];
}
