/** Statuses of listeners whose port this process cannot open. They replace those of the translation. Pure. */
import { objectKey } from "@gatewayproxy/runtime/object-key";
import { joinSome } from "@gatewayproxy/runtime/bounded-text";
import type { GatewayStatus, ListenerSetStatus, ListenerStatus, Statuses } from "../api/status.ts";
import type { Bind, Listener } from "../ir/snapshot.ts";

/** An address and port on which the process does not listen, and the error. */
export interface UnopenedBind {
  readonly address: string | undefined;
  readonly port: number;
  /** As `Bind.transport`. */
  readonly transport?: "UDP";
  readonly message: string;
}

type Socket = Pick<UnopenedBind, "port" | "transport"> & { readonly address?: string | undefined };

function isSameSocket(a: Socket, b: Socket): boolean {
  return a.address === b.address && a.port === b.port && a.transport === b.transport;
}

function listenersOf({ listeners, streams = [] }: Bind): readonly Pick<Listener, "key" | "gateway">[] {
  return [...listeners, ...streams];
}

/** Sets `Programmed` to False (`Pending`) for each listener of `binds` on an `unopened` address and port. */
export function withUnopened(statuses: Statuses, binds: readonly Bind[], unopened: readonly UnopenedBind[]): Statuses {
  if (unopened.length === 0) return statuses;
  const messages = new Map<string, string>();
  for (const failed of unopened) {
    const bind = binds.find((each) => isSameSocket(each, failed));
    for (const { key } of bind === undefined ? [] : listenersOf(bind)) {
      messages.set(key, `${failed.message}; trying again`);
    }
  }
  const open = new Set(
    binds
      .filter((bind) => !unopened.some((each) => isSameSocket(bind, each)))
      .flatMap((bind) => listenersOf(bind).map(({ gateway }) => objectKey(gateway))),
  );
  return {
    ...statuses,
    gateways: statuses.gateways.map((gateway) => {
      const key = objectKey(gateway);
      const listeners = gateway.listeners.map((each) => withPendingMessage(each, messages.get(`${key}/${each.name}`)));
      return withClosedListeners({ ...gateway, listeners }, messages, open);
    }),
    listenerSets: statuses.listenerSets.map((set) => {
      const ends = (name: string): string => `/set ${objectKey(set)}/${name}`;
      const messageOf = (name: string) => [...messages].find(([key]) => key.endsWith(ends(name)))?.[1];
      return withPendingListeners({
        ...set,
        listeners: set.listeners.map((each) => withPendingMessage(each, messageOf(each.name))),
      });
    }),
  };
}

function withPendingMessage(listener: ListenerStatus, message: string | undefined): ListenerStatus {
  if (message === undefined) return listener;
  const conditions = listener.conditions.map((condition) =>
    condition.type === "Programmed"
      ? ({ ...condition, status: "False", reason: "Pending", message } as const)
      : condition,
  );
  return { ...listener, conditions };
}

/** Sets `Programmed` of a ListenerSet to False if none of its listeners is programmed. */
function withPendingListeners(set: ListenerSetStatus): ListenerSetStatus {
  const programmedOf = ({ conditions }: ListenerStatus) => conditions.find(({ type }) => type === "Programmed");
  const all = set.listeners.map(programmedOf);
  const closed = all.find((condition) => condition?.reason === "Pending");
  if (closed === undefined || all.some((condition) => condition?.status === "True")) return set;
  const conditions = set.conditions.map((condition) =>
    condition.type === "Programmed" && condition.status === "True"
      ? ({ ...condition, status: "False", reason: "ParentNotProgrammed", message: closed.message } as const)
      : condition,
  );
  return { ...set, conditions };
}

/**
 * Sets `Programmed` of a Gateway to False if none of its listeners is open; otherwise adds the closed ones to its
 * message.
 */
function withClosedListeners(
  gateway: GatewayStatus,
  messages: ReadonlyMap<string, string>,
  open: ReadonlySet<string>,
): GatewayStatus {
  const key = `${objectKey(gateway)}/`;
  const own = [...messages].filter(([listener]) => listener.startsWith(key));
  if (own.length === 0) return gateway;
  const isOpen = open.has(objectKey(gateway));
  const problems = joinSome(own.map(([listener, message]) => `listener ${listener.slice(key.length)}: ${message}`));
  const conditions = gateway.conditions.map((condition) => {
    if (condition.type !== "Programmed" || condition.status !== "True") return condition;
    if (isOpen) return { ...condition, message: problems };
    return { ...condition, status: "False", reason: "Pending", message: problems } as const;
  });
  return { ...gateway, conditions };
}
