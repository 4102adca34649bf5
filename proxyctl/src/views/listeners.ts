/** The listeners of `proxyctl config all`: what is open, and what is attached there. */
import type { ConfigDump, DumpedBind } from "@gatewayproxy/admin-api/config-dump";
import type { Column } from "../output/table.ts";

export interface ListenerRow {
  readonly bind: DumpedBind;
  readonly listener: DumpedBind["listeners"][number];
}

/** In the order of the dump. */
export function listenerRows({ binds }: Pick<ConfigDump, "binds">): readonly ListenerRow[] {
  return binds.flatMap((bind) => bind.listeners.map((listener) => ({ bind, listener })));
}

export const listenerColumns: readonly Column<ListenerRow>[] = [
  { head: "LISTENER", whenNarrow: "wrap", cell: ({ listener }) => listener.key },
  { head: "PROTOCOL", cell: ({ listener }) => listener.protocol },
  { head: "ADDRESS", whenNarrow: "wrap", cell: ({ bind }) => bind.key },
  { head: "HOSTNAME", whenNarrow: "wrap", cell: ({ listener }) => listener.hostname ?? "*" },
  { head: "ROUTES", cell: ({ listener }) => String(listener.routes.length) },
  { head: "STATUS", cell: ({ bind }) => (bind.isOpen ? "open" : "closed") },
];

/** Why it is not open. */
export function listenerNotes({ bind }: ListenerRow): readonly string[] {
  return bind.isOpen ? [] : [bind.fault ?? "it is not open"];
}
