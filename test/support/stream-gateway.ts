/**
 * A data plane in this process that relays connections and sessions, on real sockets and a fake clock. Its snapshots
 * are made by hand, so that tests can have any of them.
 */
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { runToEnd } from "@gatewayproxy/runtime/steps";
import { onTestFinished } from "vitest";
import { DataPlane, type DataPlaneOptions } from "../../proxy/src/data-plane/data-plane.ts";
import { assertSnapshot } from "../../proxy/src/ir/assert-snapshot.ts";
import type { LocalLimit } from "../../proxy/src/ir/limit.ts";
import type { Backend, BackendRef, Bind, StreamListener, StreamRoute } from "../../proxy/src/ir/snapshot.ts";
import type { ShedReason } from "../../proxy/src/listen/client-connections.ts";
import { CounterTable, createCounters } from "../../proxy/src/policy/ratelimit/counter-table.ts";
import type { DropReason, StreamRecord } from "../../proxy/src/telemetry/stream-record.ts";
import { compareText } from "../../proxy/src/translate/index/object-names.ts";

/** What a test reads of its gateway. */
export interface StreamGateway {
  readonly clock: FakeClock;
  readonly dataPlane: DataPlane;
  /** The open connections and sessions. */
  readonly open: ReadonlySet<StreamRecord>;
  /** Those that have ended, in the order of their ends. */
  readonly records: readonly StreamRecord[];
  /** Why datagrams were dropped. */
  readonly dropped: DropReason[];
  readonly shed: readonly ShedReason[];
  /** Bytes as they were counted while the connections were open: received and sent. */
  readonly counted: { received: number; sent: number };
  /** The port of the bind of `port`. */
  port(port?: number, transport?: "UDP"): number;
  apply(config: StreamConfig): Promise<void>;
  /** Resolves with the next `count` records. */
  ended(count?: number): Promise<readonly StreamRecord[]>;
}

/** The binds and backends of a snapshot. */
export interface StreamConfig {
  readonly binds: readonly Bind[];
  readonly backends: readonly Backend[];
}

/** Options of the data plane that tests set. */
export type StreamGatewayOptions = Partial<
  Pick<
    DataPlaneOptions,
    "streams" | "clientMemory" | "expectsProxyHeader" | "addresses" | "counters" | "worker" | "resolveName" | "upstream"
  >
>;

/** Serves `config`. All is closed when the test ends; internal errors fail it. */
export async function startStreams(config: StreamConfig, options: StreamGatewayOptions = {}): Promise<StreamGateway> {
  const clock = new FakeClock();
  const open = new Set<StreamRecord>();
  const records: StreamRecord[] = [];
  const dropped: DropReason[] = [];
  const shed: ShedReason[] = [];
  const counted = { received: 0, sent: 0 };
  const errors: unknown[] = [];
  const waiting = new Set<() => void>();
  const dataPlane = new DataPlane({
    clock,
    random: () => 0,
    createRequestId: () => "id",
    counters: new CounterTable(createCounters(1_024, 2), 1, clock),
    expectsProxyHeader: false,
    ...options,
    reusePort: false,
    portOf: () => 0,
    observer: {
      connectionOpened: () => undefined,
      connectionClosed: () => undefined,
      connectionShed: (reason) => shed.push(reason),
      requestStarted: () => undefined,
      requestEnded: () => undefined,
      denied: () => undefined,
      mirrored: () => undefined,
      streams: {
        streamOpened: (record) => open.add(record),
        bytesRelayed(_record, received, sent) {
          counted.received += received;
          counted.sent += sent;
        },
        streamEnded(record) {
          open.delete(record);
          records.push(record);
          for (const look of waiting) look();
        },
        datagramDropped(_listener, reason) {
          dropped.push(reason);
          for (const look of waiting) look();
        },
      },
    },
    faulted: (error) => errors.push(error),
  });
  let generation = 0;
  const apply = async ({ binds, backends }: StreamConfig): Promise<void> => {
    const sorted = backends.toSorted((a, b) => compareText(a.key, b.key));
    runToEnd(assertSnapshot({ binds, backends: sorted }));
    const failures = await dataPlane.apply({ generation: ++generation, binds, backends: sorted });
    if (failures.length > 0) throw new Error(JSON.stringify(failures));
  };
  onTestFinished(async () => {
    const drained = dataPlane.drain();
    dataPlane.destroy();
    await drained;
    if (errors.length > 0) throw new AggregateError(errors, "internal errors of the proxy");
  });
  await apply(config);
  return {
    ...{ clock, dataPlane, open, records, dropped, shed, counted, apply },
    port: (port = 9_000, transport) => {
      const found = dataPlane.portOf("127.0.0.1", port, transport);
      if (found === undefined) throw new Error(`nothing listens for port ${port}`);
      return found;
    },
    ended: (count = 1) => {
      const from = records.length;
      return new Promise((resolve) => {
        const look = (): void => {
          if (records.length - from < count) return;
          waiting.delete(look);
          resolve(records.slice(from, from + count));
        };
        waiting.add(look);
      });
    },
  };
}

/** A bind of 127.0.0.1 with these stream listeners. */
export function streamBind(streams: readonly StreamListener[], rest: Partial<Bind> = {}): Bind {
  const isUdp = streams.some(({ protocol }) => protocol === "UDP");
  return {
    address: "127.0.0.1",
    port: 9_000,
    listeners: [],
    streams,
    ...(isUdp && { transport: "UDP" as const }),
    ...rest,
  };
}

/** A listener of the Gateway `default/web`. */
export function streamListener(
  protocol: StreamListener["protocol"],
  routes: readonly StreamRoute[],
  rest: Partial<StreamListener> = {},
): StreamListener {
  const { name = "stream" } = rest;
  return {
    key: `default/web/${name}`,
    gateway: { namespace: "default", name: "web" },
    name,
    protocol,
    routes,
    ...rest,
  };
}

/** A route of kind `TCPRoute`, or of another. @param refs backends with a weight of 1, or references. */
export function streamRoute(
  name: string,
  refs: readonly (Backend | BackendRef)[],
  rest: Partial<StreamRoute> & { readonly kind?: "TCPRoute" | "TLSRoute" | "UDPRoute" } = {},
): StreamRoute {
  const { kind = "TCPRoute", ...fields } = rest;
  const key = `${kind}/default/${name}`;
  return {
    namespace: "default",
    name,
    key,
    hostnames: [],
    rule: `${key}/0`,
    backendRefs: refs.map((ref) => ("weight" in ref ? ref : refTo(ref))),
    limits: [],
    ...fields,
  };
}

/** A reference to a backend. */
export function refTo({ key }: Backend, weight = 1): BackendRef {
  return { kind: "backend", weight, backend: key, filters: [] };
}

/** A Service with these endpoints of 127.0.0.1. */
export function streamBackend(name: string, ports: readonly number[], rest: Partial<Backend> = {}): Backend {
  const { protocol = "tcp" } = rest;
  return {
    key: `Service/default/${name}:80 over ${protocol.toUpperCase()}`,
    kind: "Service",
    namespace: "default",
    name,
    protocol,
    endpoints: ports.map((port, at) => ({ name: `${name}-${at}`, host: "127.0.0.1", port })),
    ...rest,
  };
}

/** A limit of `amount` connections. */
export function connectionLimit(amount: number, rest: Partial<LocalLimit> = {}): LocalLimit {
  return {
    ...{ counter: "default/p connections", policy: "default/p", entry: 0, target: "TCPRoute/default/a" },
    ...{ counts: "connections", amount, burst: 0, mode: "Enforce" },
    ...rest,
  };
}

/** A TCP server on 127.0.0.1, whose sockets permit half-open connections; `port` is its port. */
export async function startTcp(serve: (socket: Socket) => void): Promise<Server & { readonly port: number }> {
  const sockets = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined).once("close", () => sockets.delete(socket));
    serve(socket);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return Object.assign(server, { port: (server.address() as AddressInfo).port });
}

/** Connects to 127.0.0.1. The socket permits half-open connections. */
export async function openTcp(port: number): Promise<Socket> {
  const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
  onTestFinished(() => void socket.destroy());
  await once(socket, "connect");
  return socket.on("error", () => undefined);
}

/** Returns all that comes until the other side ends; rejects if it resets the connection. */
export async function readAll(socket: Socket): Promise<string> {
  const parts: Buffer[] = [];
  return await new Promise((resolve, reject) => {
    socket.on("data", (part: Buffer) => parts.push(part));
    socket.once("error", reject);
    socket.once("end", () => resolve(Buffer.concat(parts).toString("latin1")));
    socket.once("close", () => reject(new Error("closed without an end")));
  });
}
