/**
 * The Gateways of `proxyctl config all`: whether each is accepted and programmed, and the problems of its listeners.
 */
import type { ConfigDump, DumpedGateway, DumpedListener } from "@gatewayproxy/admin-api/config-dump";
import type { Condition } from "@gatewayproxy/admin-api/shape";
import type { Column } from "../output/table.ts";
import { none } from "./backends.ts";
import { messagesOf } from "./condition-words.ts";

/** A Gateway and its listeners. */
export interface GatewayRow {
  readonly gateway: DumpedGateway;
  /** Its own listeners, and those of its ListenerSets. */
  readonly listeners: readonly DumpedListener[];
}

/** Returns rows in the order of the dump. */
export function gatewayRows({
  gateways,
  listeners,
}: Pick<ConfigDump, "gateways" | "listeners">): readonly GatewayRow[] {
  return gateways.map((gateway) => {
    const { namespace, name } = gateway;
    const own = listeners.filter(({ gateway: owner }) => owner.namespace === namespace && owner.name === name);
    return { gateway, listeners: own };
  });
}

/** The columns of Gateways. */
export const gatewayColumns: readonly Column<GatewayRow>[] = [
  { head: "GATEWAY", whenNarrow: "wrap", cell: ({ gateway }) => gateway.name },
  { head: "NAMESPACE", whenNarrow: "wrap", cell: ({ gateway }) => gateway.namespace },
  { head: "ACCEPTED", cell: ({ gateway }) => statusOf(gateway.conditions, "Accepted") },
  { head: "PROGRAMMED", cell: ({ gateway }) => statusOf(gateway.conditions, "Programmed") },
];

/** Returns the messages of unmet conditions. */
export function gatewayNotes({ gateway, listeners }: GatewayRow): readonly string[] {
  return [
    ...messagesOf(gateway.conditions),
    ...listeners.flatMap(({ name, conditions }) =>
      messagesOf(conditions).map((message) => `listener ${name}: ${message}`),
    ),
  ];
}

/** Returns `True`, or the reason of a condition that is not True. */
function statusOf(conditions: readonly Condition[], type: string): string {
  const condition = conditions.find((candidate) => candidate.type === type);
  if (condition === undefined) return none;
  return condition.status === "True" ? "True" : condition.reason;
}

/** Returns each condition in one line: `Programmed=True (Programmed): 1 of 1 listeners are programmed`. */
export function conditionLines(conditions: readonly Condition[]): readonly string[] {
  return conditions.map(({ type, status, reason, message }) => `${type}=${status} (${reason}): ${message}`);
}
