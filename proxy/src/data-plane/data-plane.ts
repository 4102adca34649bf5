/**
 * The part of a worker that serves requests. It applies snapshots, keeps one listening socket per bind, and serves each
 * request by the rules of the snapshot that is current when the request begins. Connections, pools and counters outlive
 * snapshots.
 */
import { OutputMeans } from "../pipeline/output-means.ts";
import type { Task } from "@gatewayproxy/admin-api/tasks";
import { AddressGuard, unrestricted } from "@gatewayproxy/runtime/address-rules";
import { type Logger, silentLogger } from "@gatewayproxy/runtime/log";
import { memoised } from "@gatewayproxy/runtime/memoised";
import { renderSocketAddress } from "@gatewayproxy/runtime/setting-kinds";
import { runInSlices } from "@gatewayproxy/runtime/steps";
import { authenticationsOf } from "../authentication/credential-headers.ts";
import { Authenticators } from "../authentication/authenticators.ts";
import type { FetchOutcome } from "../authentication/remote-key-set.ts";
import { defaultIpv6PrefixLength } from "../cel/variables.ts";
import type { KeySetState } from "../ir/key-set-state.ts";
import type { GlobalLimit } from "../ir/global-limit.ts";
import { pagesOfRoutes } from "../ir/route-pages.ts";
import type { BackendKey, Bind, Route, Snapshot } from "../ir/snapshot.ts";
import type { CounterTable } from "../policy/ratelimit/counter-table.ts";
import type { Denial } from "../policy/ratelimit/denial.ts";
import { GlobalLimiter, type ServiceNews } from "../policy/ratelimit/global/global-limiter.ts";
import { Http2UnaryClient } from "../policy/ratelimit/global/grpc/http2-unary-client.ts";
import { type GlobalLimitObserver, silentObserver } from "../policy/ratelimit/global/observer.ts";
import type { LearnedEntry } from "../policy/ratelimit/global/learned-limits.ts";
import type { ServiceState } from "../policy/ratelimit/global/service-client.ts";
import type { RequestLog } from "../telemetry/request-log.ts";
import type { ViewedRequest } from "../telemetry/access-log/ended-request.ts";
import type { RequestRecord } from "../telemetry/request-record.ts";
import type { RequestTracing } from "../telemetry/spans/request-tracing.ts";
import { Tracer } from "../telemetry/trace/tracer.ts";
import { defaultUpgradeProtocols, type UpgradeProtocols, upgradeProtocols } from "../listen/upgrade-protocol.ts";
import { indexOf, RouteCompiler, type RouteIndex } from "../routing/compile-routes.ts";
import { Rotations } from "../routing/weighted.ts";
import type { BackendOptions } from "../upstream/backend-handle.ts";
import { Backends } from "../upstream/backends.ts";
import type { EndpointState } from "../ir/endpoint-state.ts";
import { resolveName } from "@gatewayproxy/runtime/host-names";
import { errorMessage } from "@gatewayproxy/runtime/thrown-value";
import { defaultUpstream, type UpstreamSettings } from "../upstream/upstream-settings.ts";
import {
  AbandonedResponses,
  type AbandonedResponseSettings,
  defaultAbandonedResponses,
} from "../pipeline/attempts/abandoned-responses.ts";
import { BodyBudget, createBodyMemory, defaultBodyMemoryBytes } from "../pipeline/body/body-budget.ts";
import { copiesOf } from "../pipeline/copy-memory.ts";
import { BindStreams } from "../streams/bind-streams.ts";
import { type CompiledStreamListener, compileStreamListener } from "../streams/compiled-stream-route.ts";
import { OwnSockets } from "../streams/own-sockets.ts";
import { UdpBinds } from "../streams/udp-binds.ts";
import { defaultStreams, type StreamServices, type StreamSettings } from "../streams/stream-services.ts";
import type { StreamObserver, StreamRecord } from "../telemetry/stream-record.ts";
import type { LocalDenial } from "../policy/ratelimit/denial.ts";
import type { Timer } from "@gatewayproxy/runtime/clock";
import { RequestTurns } from "@gatewayproxy/http/request-turns";
import { BindServer } from "../listen/bind-server.ts";
import { HandshakeTurns } from "../listen/handshake-turns.ts";
import { ConnectionLog } from "../listen/connection-log.ts";
import {
  ClientConnections,
  type ClientMemory,
  clientMemoryOf,
  defaultClientBytes,
  type ShedReason,
} from "../listen/client-connections.ts";
import { type CompiledLimits, compileRule } from "../pipeline/compiled-rule.ts";
import type { Downstream, RejectedRequest } from "../listen/downstream.ts";
import { Exchange, type ExchangeServices } from "../pipeline/exchange.ts";
import { type FaultSink, guardedClock } from "./faults.ts";
import { KnownPipelines } from "../pipeline/known-pipelines.ts";
import { LinkedSet } from "../pipeline/linked-set.ts";
import type { MirrorOutcome } from "../pipeline/mirror.ts";
import { defaultRequestRules, type RequestRules } from "../listen/request-head.ts";
import { type Pipeline, pipelineOf } from "../pipeline/stages.ts";
import { StreamIdleTimeouts } from "../pipeline/stream-idle-timeouts.ts";
import { recordRejected } from "./rejected-request.ts";
import { createProviderMemory, ProviderStates } from "../upstream/provider-states.ts";
import { type RequestBind, serveRequest } from "./serve-request.ts";
import { describeBind } from "./tasks.ts";
import type { TlsListener } from "../listen/tls-termination.ts";

/** Counts and logs the events of a data plane. `bind` is `address:port`, with `*` for every address. */
export interface DataPlaneObserver {
  connectionOpened(bind: string): void;
  connectionClosed(bind: string): void;
  /** Called when a connection of `client` was closed because a memory bound of client connections was exceeded. */
  connectionShed(reason: ShedReason, client: string): void;
  requestStarted(bind: string): void;
  /** Called once for each started request. The observer owns the record from then on, and reads `request` at once. */
  requestEnded(bind: string, record: RequestRecord, request: ViewedRequest): void;
  /** Called when a limit denies a request. Its record still changes afterwards. */
  denied(record: RequestRecord, denial: Denial): void;
  /** Receives the events of relayed connections and sessions; absent if there is no receiver. */
  readonly streams?: StreamObserver;
  /** Called when a limit denies a connection or a session; absent if there is no receiver. */
  streamDenied?(record: StreamRecord, denial: LocalDenial): void;
  /** Called after each attempt to read a key set from its URL; absent if there is no receiver. */
  keySetFetched?(uri: string, outcome: FetchOutcome): void;
  /** Called when the copy of a request has ended. `backend` is the key of the mirror's backend. */
  mirrored(backend: string, outcome: MirrorOutcome): void;
}

/** The settings and services of one worker. An absent member has the default that its comment names. */
export interface DataPlaneOptions
  extends Omit<
    ExchangeServices,
    | "listenerPort"
    | "bodies"
    | "copies"
    | "started"
    | "finished"
    | "mirrored"
    | "denied"
    | "tracer"
    | "live"
    | "faulted"
    | "pathRules"
    | "trustedHops"
    | "ipv6PrefixLength"
    | "abandonedResponses"
    | "outputMeans"
  > {
  /** Receives the events of connections and requests, for metrics and the access log. */
  readonly observer: DataPlaneObserver;
  /** Receives internal errors of the proxy. */
  readonly faulted: FaultSink;
  /** The counters of local limits, shared by all workers. */
  readonly counters: CounterTable;
  /** Number of the worker, from 1; absent: 1. */
  readonly worker?: number;
  /** Receives the events of single requests; absent if there is no receiver. */
  readonly requestLog?: RequestLog;
  /** Receives events of client connections; absent if there is no receiver. */
  readonly connectionLog?: Logger;
  /** Receives events of endpoints and their connections; absent if there is no receiver. */
  readonly upstreamLog?: Logger;
  /** As `ExchangeServices.trustedHops`; absent: 0. */
  readonly trustedHops?: number;
  /** As `ExchangeServices.ipv6PrefixLength`; absent: `defaultIpv6PrefixLength`. */
  readonly ipv6PrefixLength?: number;
  /** Milliseconds without data after which a request that waits for its client is ended; 0 or absent: no timeout. */
  readonly streamIdleTimeoutMs?: number;
  /**
   * As `streamIdleTimeoutMs`, while other requests wait for connections or body memory; 0 or absent: no such timeout.
   */
  readonly contendedStreamIdleTimeoutMs?: number;
  /** Absent: the defaults. */
  readonly upstream?: UpstreamSettings;
  /** The timeouts and bounds of relayed connections and sessions; absent: the defaults. */
  readonly streams?: StreamSettings;
  /** The addresses to which the proxy does not connect; absent: it connects to all. */
  readonly addresses?: AddressGuard;
  /** Absent: the defaults. */
  readonly abandonedResponses?: AbandonedResponseSettings;
  /** Resolves host names; absent: by the name servers of the machine. */
  readonly resolveName?: BackendOptions["resolveName"];
  /** Receives events of rate limit services; absent if there is no receiver. */
  readonly globalLimits?: GlobalLimitObserver;
  /**
   * Called with what was found out about rate limit services. The caller calls `takeServiceNews` of the other workers.
   */
  readonly onServiceNews?: ((news: ServiceNews) => void) | undefined;
  /** The spans of requests; absent if they are not exported. */
  readonly tracing?: RequestTracing | undefined;
  /** Whether several sockets listen on the same TCP ports, of this worker or of others. */
  readonly reusePort: boolean;
  /** As `BindOptions.listeningSockets`; absent: one. */
  readonly listeningSockets?: number;
  /** Whether this worker has the socket of a UDP bind, by its name; absent: of all. */
  readonly servesUdp?: (bind: string) => boolean;
  /** Whether every connection begins with a PROXY protocol header. */
  readonly expectsProxyHeader: boolean;
  /** The memory for request bodies; absent: a budget of the default size for this worker only. */
  readonly bodies?: BodyBudget;
  /** The health and quota of LLM providers, shared by all workers; absent: of this worker's own. */
  readonly providers?: ProviderStates;
  /** Absent: the default. */
  readonly clientMemory?: ClientMemory;
  /** Protocols that a request may switch to; absent: the default. */
  readonly upgradeProtocols?: readonly string[];
  /** Absent: the defaults. */
  readonly requestRules?: RequestRules;
  /** Overrides the port of a bind. Tests listen on port 0 with it. */
  readonly portOf?: (bind: Bind) => number;
}

/** A bind on which the proxy could not listen. All others are served. */
export interface BindFailure {
  /** The IP address of the bind; undefined: every address. */
  readonly address: string | undefined;
  readonly port: number;
  /** Absent: TCP. */
  readonly transport?: "UDP";
  /** The message of Node: `listen EADDRINUSE: address already in use 127.0.0.1:8080`. */
  readonly message: string;
}

/** A bind that is open, with the current routes of its requests. */
interface OpenBind extends RequestBind {
  readonly name: string;
  readonly server: BindServer;
  readonly streams: BindStreams;
  readonly rules: RequestRules;
  routes: RouteIndex<Pipeline>;
}

/** Interval at which the bytes of relayed connections are counted, and their idle timeouts checked. */
const streamSweepMs = 1_000;
/** Time to establish a connection to a backend. */
const connectTimeoutMs = 5_000;
/** Time without data after which a connection to a backend is closed. */
const idleTimeoutMs = 300_000;

/** Serves the current snapshot. `apply` replaces it; `leave` and `drain` end the service. */
export class DataPlane {
  readonly #options: DataPlaneOptions;
  readonly #requestRules: RequestRules;
  readonly #routeCompiler: RouteCompiler<Pipeline>;
  /** Traces the requests that operators watch. */
  readonly tracer: Tracer;
  readonly #backends: Backends;
  readonly #rotations = new Rotations();
  readonly #pipelines = new KnownPipelines();
  readonly #providers: ProviderStates;
  readonly #globalLimiter: GlobalLimiter;
  readonly #authenticators: Authenticators;
  readonly #binds = new Map<string, OpenBind>();
  /** Binds that are not in the current snapshot, until their last connection has closed. */
  readonly #retired = new Map<OpenBind, Promise<void>>();
  readonly #streamIdleTimeouts: StreamIdleTimeouts | undefined;
  readonly #abandonedResponses: AbandonedResponses;
  readonly #outputMeans = new OutputMeans();
  readonly #upgradeProtocols: UpgradeProtocols;
  readonly #bodies: BodyBudget;
  readonly #clients: ClientConnections;
  readonly #turns: RequestTurns;
  readonly #handshakes: HandshakeTurns;
  readonly #streamServices: StreamServices;
  readonly #udp: UdpBinds;
  /** Undefined until a bind has relayed connections or sessions. */
  #streamSweep: Timer | undefined;
  #isLeaving = false;

  constructor(given: DataPlaneOptions) {
    const options = { ...given, clock: guardedClock(given.clock, given.faulted) };
    this.#options = options;
    this.#requestRules = options.requestRules ?? defaultRequestRules;
    this.#routeCompiler = new RouteCompiler(this.#requestRules.path);
    this.tracer = new Tracer(options.clock, options.worker ?? 1, options.requestLog);
    this.#providers = options.providers ?? new ProviderStates(createProviderMemory(), options.worker ?? 1);
    this.#bodies = options.bodies ?? new BodyBudget(createBodyMemory(1), 1, defaultBodyMemoryBytes);
    this.#upgradeProtocols = upgradeProtocols(options.upgradeProtocols ?? defaultUpgradeProtocols);
    const { clock, random, counters, globalLimits = silentObserver, upstream = defaultUpstream } = options;
    const { addresses = new AddressGuard(unrestricted) } = options;
    const { streamIdleTimeoutMs: timeoutMs = 0, contendedStreamIdleTimeoutMs: contendedTimeoutMs = 0 } = options;
    const isContended = (): boolean => this.#backends.isContended || this.#bodies.isTight;
    const requests = (): Iterable<Exchange> => this.#exchanges();
    const { clientMemory: memory = clientMemoryOf(defaultClientBytes), ipv6PrefixLength = defaultIpv6PrefixLength } =
      options;
    this.#turns = new RequestTurns(clock);
    this.#handshakes = new HandshakeTurns(clock);
    this.#clients = new ClientConnections({
      ...{ clock, memory, ipv6PrefixLength, requests },
      onShed: (reason, client) => options.observer.connectionShed(reason, client),
    });
    this.#streamIdleTimeouts =
      timeoutMs === 0 && contendedTimeoutMs === 0
        ? undefined
        : new StreamIdleTimeouts({ clock, timeoutMs, contendedTimeoutMs, isContended, requests });
    this.#abandonedResponses = new AbandonedResponses(clock, options.abandonedResponses ?? defaultAbandonedResponses);
    this.#streamServices = {
      ...{ clock, ipv6PrefixLength, addresses, ownSockets: new OwnSockets() },
      settings: options.streams ?? defaultStreams,
      observer: options.observer.streams ?? unobserved,
      onDenied: (record, denial) => options.observer.streamDenied?.(record, denial),
      onFault: (error) => options.faulted(error, "connection"),
    };
    this.#udp = new UdpBinds(this.#streamServices);
    const resolve = options.resolveName ?? resolveName;
    this.#backends = new Backends({
      ...upstream,
      clock,
      random,
      resolveName: resolve,
      addresses,
      connectTimeoutMs,
      idleTimeoutMs,
      log: options.upstreamLog ?? silentLogger,
    });
    const onFetched = (uri: string, outcome: FetchOutcome): void => options.observer.keySetFetched?.(uri, outcome);
    this.#authenticators = new Authenticators({ clock, random, addresses, onFetched });
    const onFault = (error: unknown): void => options.faulted(error, "globalLimit");
    const openClient = () => new Http2UnaryClient({ clock, random, addresses, onError: onFault });
    this.#globalLimiter = new GlobalLimiter({
      ...{ clock, openClient, counters, observer: globalLimits },
      onError: onFault,
      notifyOthers: options.onServiceNews,
    });
  }

  /**
   * Replaces the current snapshot. Requests in progress keep the snapshot with which they began. Calls must not
   * overlap.
   *
   * @returns the binds that failed, when every other bind listens.
   */
  async apply(snapshot: Snapshot): Promise<readonly BindFailure[]> {
    const backends = await runInSlices(this.#backends.reconcile(snapshot.backends));
    this.#rotations.beginSnapshot();
    this.#authenticators.prepare(authenticationsOf(snapshot));
    this.#globalLimiter.prepare(globalLimitsOf(snapshot), (key) => backends.get(key)?.backend);
    const shared = {
      backends,
      counters: this.#options.counters,
      globalLimiter: this.#globalLimiter,
      authenticators: this.#authenticators,
      rotations: this.#rotations,
      providers: this.#providers,
    };
    const failures: BindFailure[] = [];
    const wanted = new Set(snapshot.binds.map(bindName));
    for (const [key, open] of this.#binds) {
      if (wanted.has(key)) continue;
      this.#retire(key, open);
      open.streams.close("RouteChanged");
    }
    this.#udp.keep(wanted);
    const limits: CompiledLimits = new Map();
    const compiled = await this.#routeCompiler.compile(snapshot.binds, {
      compile: (gateway, route, rule) =>
        this.#pipelines.of(gateway, route, rule, backends, () =>
          pipelineOf(compileRule(shared, limits, gateway, route, rule)),
        ),
      keeps: (routes) => this.#pipelines.areKept(routes, backends),
    });
    for (const bind of snapshot.binds) {
      const open = this.#binds.get(bindName(bind));
      // A bind that cannot be compiled or opened keeps its previous state, and the others are served.
      try {
        const routes = indexOf(compiled, bind);
        const streams = bind.streams?.map((listener) => compileStreamListener(shared, listener)) ?? [];
        if (bind.transport === "UDP") await this.#serveUdp(bind, streams[0]);
        else if (open === undefined) await this.#open(bind, routes, streams);
        else reopen(open, bind, routes, streams);
        if (streams.length > 0) this.#startStreamSweep();
      } catch (error) {
        failures.push(bindFailure(bind, error));
      }
    }
    this.#backends.closeRemoved();
    return failures;
  }

  /** Returns the port on which a bind listens, also if the bind has port 0; undefined for an unknown bind. */
  portOf(address: string | undefined, port: number, transport?: "UDP"): number | undefined {
    const name = bindName({ address, port, transport });
    return transport === undefined ? this.#binds.get(name)?.server.port : this.#udp.portOf(name);
  }

  /**
   * Asks the clients of all binds to close their connections, also of binds that open later, and continues to serve
   * them. A shutdown calls it before `drain`.
   */
  leave(): void {
    this.#isLeaving = true;
    for (const { server } of this.#binds.values()) server.leave();
  }

  /**
   * Accepts no new connections. Resolves when all requests have ended and all connections are closed.
   *
   * @param withinMs after which relayed connections and sessions are closed; absent: they have no bound.
   */
  async drain(withinMs?: number): Promise<void> {
    for (const [key, open] of this.#binds) this.#retire(key, open);
    const sessions = this.#udp.drain();
    const timer =
      withinMs === undefined ? undefined : this.#options.clock.setTimer(withinMs, () => this.#closeStreams());
    await Promise.all([...this.#retired.values(), sessions]);
    timer?.cancel();
    await this.#abandonedResponses.drain();
    // The charges of a response are sent after it.
    await this.#globalLimiter.drain();
  }

  /** Returns at most `max` of the limits that rate limit services have reported to this worker, for operators. */
  learnedLimits(max: number): readonly LearnedEntry[] {
    return this.#globalLimiter.learned(max);
  }

  /** Takes what another worker has found out about rate limit services. */
  takeServiceNews(news: ServiceNews): void {
    this.#globalLimiter.take(news);
  }

  /** The key sets that this worker reads from URLs, for operators. */
  keySets(): readonly KeySetState[] {
    return this.#authenticators.keySets();
  }

  /** The rate limit services of this worker, for operators. */
  rateLimitServices(): readonly ServiceState[] {
    return this.#globalLimiter.state();
  }

  /** Returns the tasks in progress on all binds, for operators. */
  tasks(): readonly Task[] {
    const nowMs = this.#options.clock.monotonicMs();
    const describe = ({ name, server, services }: OpenBind, isDraining: boolean): Task =>
      describeBind({ name, connections: server.connections(), exchanges: services.live, isDraining }, nowMs);
    return [
      ...Array.from(this.#binds.values(), (open) => describe(open, false)),
      ...Array.from(this.#retired.keys(), (open) => describe(open, true)),
    ];
  }

  *#exchanges(): Generator<Exchange> {
    for (const { services } of this.#binds.values()) yield* services.live;
    for (const { services } of this.#retired.keys()) yield* services.live;
  }

  /** Returns the states of endpoints in this worker, for operators. @param keys absent: those of all backends. */
  endpoints(keys?: readonly BackendKey[]): readonly EndpointState[] {
    return this.#backends.endpoints(keys);
  }

  /** Closes all connections and timers at once, and ends the requests in progress. */
  destroy(): void {
    this.#streamIdleTimeouts?.close();
    this.#streamSweep?.cancel();
    this.#clients.close();
    this.#abandonedResponses.close();
    for (const { server } of this.#binds.values()) server.destroy();
    for (const { server } of this.#retired.keys()) server.destroy();
    this.#udp.destroy();
    this.#backends.destroy();
    this.#authenticators.close();
    this.#globalLimiter.close();
  }

  #closeStreams(): void {
    for (const { streams } of this.#retired.keys()) streams.close("Drained");
    this.#udp.destroy();
  }

  async #serveUdp(bind: Bind, listener: CompiledStreamListener | undefined): Promise<void> {
    const { portOf, servesUdp } = this.#options;
    const name = bindName(bind);
    if (servesUdp?.(name) === false) return;
    const address = { address: bind.address, port: portOf?.(bind) ?? bind.port };
    await this.#udp.serve(name, address, listener);
  }

  #startStreamSweep(): void {
    const { clock } = this.#options;
    this.#streamSweep ??= clock.every(streamSweepMs, () => {
      const nowMs = clock.monotonicMs();
      for (const { streams } of [...this.#binds.values(), ...this.#retired.keys()]) streams.sweep(nowMs);
      this.#udp.sweep(nowMs);
    });
  }

  async #open(bind: Bind, routes: RouteIndex<Pipeline>, compiled: readonly CompiledStreamListener[]): Promise<void> {
    const { observer, portOf, reusePort, listeningSockets = 1, expectsProxyHeader } = this.#options;
    const { clock, connectionLog: log = silentLogger } = this.#options;
    const name = bindName(bind);
    const options = {
      connectionLog: new ConnectionLog({ log, clock, bind: name }),
      host: bind.address,
      port: portOf?.(bind) ?? bind.port,
      reusePort,
      listeningSockets,
      clock,
      expectsProxyHeader,
      upgradeProtocols: this.#upgradeProtocols,
      rules: this.#requestRules,
      onRequest: (downstream: Downstream) => serveRequest(open, downstream),
      onRejected: (request: RejectedRequest) => recordRejected(open.services, request),
      clients: this.#clients,
      turns: this.#turns,
      handshakes: this.#handshakes,
      onFault: (error: unknown) => this.#options.faulted(error, "connection"),
      onConnectionOpened: () => observer.connectionOpened(name),
      onConnectionClosed: () => observer.connectionClosed(name),
    };
    const streams = new BindStreams(this.#streamServices);
    streams.update(bind, compiled);
    const server = await BindServer.open(options, tlsListeners(bind), receiverOf(bind, streams));
    if (this.#isLeaving) server.leave();
    const open: OpenBind = {
      name,
      server,
      streams,
      routes,
      rules: this.#requestRules,
      services: this.#servicesOf(bind),
    };
    this.#binds.set(name, open);
  }

  #servicesOf({ address, port }: Bind): ExchangeServices {
    const bind = bindName({ address, port });
    const { clock, random, createRequestId, observer, faulted, trustedHops = 0 } = this.#options;
    const { ipv6PrefixLength = defaultIpv6PrefixLength } = this.#options;
    return {
      listenerPort: port,
      clock,
      random,
      trustedHops,
      ipv6PrefixLength,
      createRequestId,
      bodies: this.#bodies,
      copies: copiesOf(this.#bodies),
      faulted: (error, record) => faulted(error, "request", record),
      tracer: this.tracer,
      tracing: this.#options.tracing,
      pathRules: this.#requestRules.path,
      abandonedResponses: this.#abandonedResponses,
      outputMeans: this.#outputMeans,
      tokens: this.#options.tokens,
      live: new LinkedSet(),
      denied: (record, denial) => observer.denied(record, denial),
      started: () => observer.requestStarted(bind),
      finished: (record, request) => observer.requestEnded(bind, record, request),
      mirrored: (backend, outcome) => observer.mirrored(backend, outcome),
    };
  }

  #retire(key: string, open: OpenBind): void {
    this.#binds.delete(key);
    const drained = open.server.drain().then(() => open.streams.drain());
    this.#retired.set(
      open,
      drained.finally(() => this.#retired.delete(open)),
    );
  }
}

/** Applies a new state to an open bind. If it throws, the bind keeps its previous state. */
function reopen(
  open: OpenBind,
  bind: Bind,
  routes: RouteIndex<Pipeline>,
  streams: readonly CompiledStreamListener[],
): void {
  open.server.setTls(tlsListeners(bind));
  open.streams.update(bind, streams);
  open.server.setStreams(receiverOf(bind, open.streams));
  open.routes = routes;
}

/** Connections of a bind with HTTP listeners only have no receiver, and cost nothing more. */
function receiverOf({ streams = [] }: Bind, receiver: BindStreams): BindStreams | undefined {
  return streams.length === 0 ? undefined : receiver;
}

const unobserved: StreamObserver = {
  streamOpened: () => undefined,
  bytesRelayed: () => undefined,
  streamEnded: () => undefined,
  datagramDropped: () => undefined,
};

function tlsListeners({ listeners }: Bind): readonly TlsListener[] {
  return listeners.flatMap(({ key, hostname, tls }) =>
    tls === undefined ? [] : [{ key, tls, ...(hostname !== undefined && { hostname }) }],
  );
}

/** Returns every global limit of a snapshot. One that several rules share is listed several times. */
function globalLimitsOf({ binds }: Snapshot): readonly GlobalLimit[] {
  return binds.flatMap(({ listeners }) =>
    listeners.flatMap(({ routes }) => pagesOfRoutes(routes).flatMap(globalLimitsOfPage)),
  );
}

const globalLimitsOfPage = memoised((routes: readonly Route[]): readonly GlobalLimit[] =>
  routes.flatMap(({ rules }) => rules.flatMap(({ globalLimits }) => globalLimits ?? [])),
);

/** The parts of a bind that identify it. */
export interface BindAddress {
  readonly address?: string | undefined;
  readonly port: number;
  readonly transport?: "UDP" | undefined;
}

/** Returns the `address:port` of a bind, and `address:port/udp` of one for UDP. `*` stands for all addresses. */
export function bindName({ address, port, transport }: BindAddress): string {
  const name = renderSocketAddress({ host: address ?? "*", port });
  return transport === undefined ? name : `${name}/udp`;
}

/** Returns the failure of a bind with the message of `error`. */
export function bindFailure({ address, port, transport }: BindAddress, error: unknown): BindFailure {
  return { address, port, ...(transport && { transport }), message: errorMessage(error) };
}
