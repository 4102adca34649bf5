/**
 * The part of a worker that serves: takes snapshots, keeps one listening socket per bind, and hands every request to
 * the rules of the snapshot that is in force when it begins. Connections, pools and counters outlive snapshots.
 */
import type { Bind, Snapshot } from "../ir/snapshot.ts";
import type { CounterTable } from "../policy/ratelimit/counter-table.ts";
import type { RequestRecord } from "../telemetry/request-record.ts";
import { readPreflight } from "../filters/cors.ts";
import { compileRoutes, type RouteIndex, type RouteMatch } from "../routing/compile-routes.ts";
import { Rotations } from "../routing/weighted.ts";
import { Backends } from "../upstream/backends.ts";
import { BindServer } from "./bind-server.ts";
import { type CompiledRule, compileRule } from "./compiled-rule.ts";
import type { Downstream, DownstreamEvents } from "./downstream.ts";
import { Exchange, type ExchangeServices } from "./exchange.ts";
import type { MirrorOutcome } from "./mirror.ts";
import type { RequestHead } from "./request-head.ts";

/** Counts and logs; `bind` is `address:port`, with `*` for every address. */
export interface DataPlaneObserver {
  connectionOpened(bind: string): void;
  connectionClosed(bind: string): void;
  requestStarted(bind: string): void;
  /** Once per request that was started; takes the record over. */
  requestEnded(bind: string, record: RequestRecord): void;
  /** A copy of a request came to its end; `backend` is the mirror's key. */
  mirrored(backend: string, outcome: MirrorOutcome): void;
}

export interface DataPlaneOptions extends Omit<ExchangeServices, "started" | "finished" | "mirrored"> {
  readonly observer: DataPlaneObserver;
  readonly counters: CounterTable;
  /** Where a bind without an address listens; absent: every address of the machine. */
  readonly listenAddress: string | undefined;
  /** Other workers listen on the same ports. */
  readonly reusePort: boolean;
  /** Tests listen on port 0 instead of the port of the Gateway. */
  readonly portOf?: (bind: Bind) => number;
}

/** A bind that could not be listened on; everything else is served. */
export interface BindFailure {
  readonly address: string | undefined;
  readonly port: number;
  /** As Node says it: `listen EADDRINUSE: address already in use 127.0.0.1:8080`. */
  readonly message: string;
}

/** A bind that is open, with what its requests are matched against now. */
interface OpenBind {
  readonly server: BindServer;
  readonly services: ExchangeServices;
  routes: RouteIndex<CompiledRule>;
}

/** New connections to a backend, and silence on it, are given up after these. */
const connectTimeoutMs = 5_000;
const idleTimeoutMs = 300_000;
const maxConnectionsPerEndpoint = 1_024;

export class DataPlane {
  readonly #options: DataPlaneOptions;
  readonly #backends = new Backends({ maxConnections: maxConnectionsPerEndpoint, connectTimeoutMs, idleTimeoutMs });
  readonly #rotations = new Rotations();
  readonly #binds = new Map<string, OpenBind>();
  /** Binds that no snapshot names any more, until their last connection has closed. */
  readonly #retired = new Map<BindServer, Promise<void>>();

  constructor(options: DataPlaneOptions) {
    this.#options = options;
  }

  /**
   * Serves `snapshot` from now on; resolves when every bind listens or has failed. Requests under way go on with what
   * they began with. Calls must not overlap.
   */
  async apply(snapshot: Snapshot): Promise<readonly BindFailure[]> {
    const backends = this.#backends.reconcile(snapshot.backends);
    this.#rotations.beginSnapshot();
    const shared = { backends, counters: this.#options.counters, rotations: this.#rotations };
    const failures: BindFailure[] = [];
    const wanted = new Set(snapshot.binds.map(bindName));
    for (const [key, open] of this.#binds) if (!wanted.has(key)) this.#retire(key, open);
    for (const bind of snapshot.binds) {
      const context = { ...shared, listenerPort: bind.port };
      const routes = compileRoutes(bind, (listener, route, rule) => compileRule(context, listener, route, rule));
      const open = this.#binds.get(bindName(bind));
      if (open !== undefined) open.routes = routes;
      else await this.#open(bind, routes).catch((error: unknown) => failures.push(bindFailure(bind, error)));
    }
    return failures;
  }

  /** The port that a bind listens on; tells what port 0 became. */
  portOf(address: string | undefined, port: number): number | undefined {
    return this.#binds.get(bindName({ address, port }))?.server.port;
  }

  /** Takes no new connection and resolves when every request has been answered and every connection is closed. */
  async drain(): Promise<void> {
    for (const [key, open] of this.#binds) this.#retire(key, open);
    await Promise.all(this.#retired.values());
  }

  /** Breaks off whatever is left. */
  destroy(): void {
    for (const { server } of this.#binds.values()) server.destroy();
    for (const server of this.#retired.keys()) server.destroy();
    this.#backends.destroy();
  }

  async #open(bind: Bind, routes: RouteIndex<CompiledRule>): Promise<void> {
    const { observer, portOf, listenAddress, reusePort } = this.#options;
    const name = bindName(bind);
    const server = await BindServer.open({
      host: bind.address ?? listenAddress,
      port: portOf?.(bind) ?? bind.port,
      reusePort,
      onRequest: (downstream) => serve(open, downstream),
      onConnectionOpened: () => observer.connectionOpened(name),
      onConnectionClosed: () => observer.connectionClosed(name),
    });
    const open: OpenBind = { server, routes, services: this.#servicesOf(name) };
    this.#binds.set(name, open);
  }

  #servicesOf(bind: string): ExchangeServices {
    const { clock, random, createRequestId, observer, faulted } = this.#options;
    return {
      clock,
      random,
      createRequestId,
      faulted,
      started: () => observer.requestStarted(bind),
      finished: (record) => observer.requestEnded(bind, record),
      mirrored: (backend, outcome) => observer.mirrored(backend, outcome),
    };
  }

  #retire(key: string, { server }: OpenBind): void {
    this.#binds.delete(key);
    this.#retired.set(
      server,
      server.drain().finally(() => this.#retired.delete(server)),
    );
  }
}

function serve({ routes, services }: OpenBind, downstream: Downstream): DownstreamEvents {
  const exchange = new Exchange(services, downstream);
  const match = findRule(routes, downstream.head);
  exchange.serve(match, match === undefined ? routes.findListener(downstream.head.authority)?.key : match.listener.key);
  return exchange;
}

/**
 * The rule of a request. A preflight belongs to the request that it announces: where no rule with CORS takes the
 * preflight itself, the one does that takes the announced method.
 */
function findRule(routes: RouteIndex<CompiledRule>, head: RequestHead): RouteMatch<CompiledRule> | undefined {
  const match = routes.find(head);
  if (head.method !== "OPTIONS" || match?.compiled.cors !== undefined) return match;
  const preflight = readPreflight(head.method, head.rawHeaders);
  if (preflight === undefined) return match;
  const announced = routes.find({ ...head, method: preflight.method });
  return announced?.compiled.cors === undefined ? match : announced;
}

/** `address:port` */
function bindName({ address, port }: { readonly address?: string | undefined; readonly port: number }): string {
  return `${address ?? "*"}:${port}`;
}

function bindFailure({ address, port }: Bind, error: unknown): BindFailure {
  return { address, port, message: error instanceof Error ? error.message : String(error) };
}
