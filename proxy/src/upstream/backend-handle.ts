/**
 * A backend as requests use it: its addresses and their pools, the selection of the next one, and ejection. It stays
 * the same object as long as any snapshot contains the backend, so its state is kept across edits.
 */
import { isIP } from "node:net";
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import type { Logger } from "@gatewayproxy/runtime/log";
import type { Backend, Endpoint, UpstreamTls } from "../ir/snapshot.ts";
import { type Candidate, pickEndpoint } from "./balance.ts";
import { ClientCalls } from "./client-calls.ts";
import { addressOf, type ConnectionTarget } from "./connection.ts";
import { deservesEjection, ejectionMs, mayEject } from "./ejection.ts";
import { type EndpointFigures, unmeasured } from "./endpoint-health.ts";
import { BackendLoad, type WaitingCalls } from "./backend-load.ts";
import { EndpointPool, type PoolOptions, type PoolOwner } from "./endpoint-pool.ts";
import type { EndpointState } from "../ir/endpoint-state.ts";
import { HealthChecks } from "./health-checks.ts";
import type { ResolveName } from "@gatewayproxy/runtime/host-names";
import { HostResolver } from "./host-resolver.ts";
import type { NameBudget } from "./name-budget.ts";
import { RetryBudget } from "./retry-budget.ts";
import type { UpstreamSettings } from "./upstream-settings.ts";
import { tlsIdentity } from "../connect/tls-identity.ts";

/** The settings of connections and calls, and the services of a worker. */
export interface BackendOptions extends PoolOptions, UpstreamSettings {
  /** Times ejections, health checks and waiting calls. */
  readonly clock: Clock;
  /** 0 ≤ random() < 1 */
  readonly random: () => number;
  /** Resolves the host names of endpoints. */
  readonly resolveName: ResolveName;
  /** Bounds the work for the names of a namespace. */
  readonly nameBudget: NameBudget;
  /** Counts the waiting calls of all backends. */
  readonly waitingCalls: WaitingCalls;
  /** Receives changes of endpoints, ejections and failed checks. */
  readonly log: Logger;
}

/** How all connections of a backend are opened; the same object as long as it does not change. */
type Transport = Omit<ConnectionTarget, "endpoint">;

/** An address of a backend. Most of those of a large cluster get no request from a worker, and have no pool. */
class Member implements Candidate {
  endpoint: Endpoint;
  readonly transport: Transport;
  pool: EndpointPool | undefined;
  /** Undefined if it is not checked. */
  checks: HealthChecks | undefined;
  /** Undefined if it is not ejected. */
  ejection: { readonly timer: Timer; readonly untilMs: number } | undefined;

  constructor(endpoint: Endpoint, transport: Transport) {
    this.endpoint = endpoint;
    this.transport = transport;
  }

  get inFlight(): number {
    return this.pool?.inFlight ?? 0;
  }

  get health(): EndpointFigures {
    return this.pool?.health ?? unmeasured;
  }

  /** `host:port` */
  get address(): string {
    return this.pool?.address ?? addressOf(this.endpoint);
  }

  /** The members of a backend differ in it. */
  get key(): string {
    const { name, host, port } = this.endpoint;
    return JSON.stringify([host, port, name]);
  }

  close(): void {
    this.ejection?.timer.cancel();
    this.checks?.close();
    this.pool?.close();
  }
}

/** A backend of one worker. `update` takes changes, `close` lets calls in progress finish, `destroy` does not. */
export class BackendHandle implements PoolOwner {
  readonly #options: BackendOptions;
  #backend: Backend;
  /** Its TLS settings, the same object as long as they do not change, since it identifies contexts and endpoints. */
  #tls: UpstreamTls | undefined;
  #tlsIdentity = "";
  #transport: Transport = {};
  /** The transports with each host name as that of the server, if the TLS settings have none. */
  #transportByHost = new Map<string, Transport>();
  /** An address of each ready endpoint. */
  #members: readonly Member[] = [];
  /** The addresses of `#members`; undefined until they are needed. */
  #addresses: ReadonlySet<string> | undefined;
  /** By host name. */
  #names = new Map<string, HostResolver>();
  /** The members that are not ejected; all if all are. */
  #available: readonly Member[] = [];
  #isClosed = false;
  #clientCalls: { readonly calls: ClientCalls; readonly untilMs: number } | undefined;
  readonly retries = new RetryBudget();
  readonly load: BackendLoad;

  constructor(backend: Backend, options: BackendOptions) {
    this.#options = options;
    this.#backend = backend;
    this.load = new BackendLoad(options.waitingCalls);
    this.update(backend);
  }

  get backend(): Backend {
    return this.#backend;
  }

  /** The number of addresses, of all ready endpoints together. */
  get size(): number {
    return this.#members.length;
  }

  /** Closes connections without a call since the last time. */
  closeIdle(): void {
    for (const { pool } of this.#members) pool?.closeIdle();
  }

  /** Adds and removes addresses. The pool of a removed one finishes its calls and closes. */
  update(backend: Backend): void {
    this.#backend = backend;
    this.#takeTransport(backend);
    const hosts = new Set(backend.endpoints.map(({ host }) => host).filter((host) => isIP(host) === 0));
    for (const [host, name] of this.#names) {
      if (hosts.has(host)) continue;
      name.close();
      this.#names.delete(host);
    }
    const { clock, log, nameBudget: budget, resolveName: resolve } = this.#options;
    const onChange = (): void => this.#rebuild();
    for (const host of hosts) {
      if (this.#names.has(host)) continue;
      const { namespace } = backend;
      this.#names.set(host, new HostResolver({ host, namespace, budget, clock, resolve, log, onChange }));
    }
    this.#rebuild();
  }

  #takeTransport({ tls, protocol }: Backend): void {
    const identity = tlsIdentity(tls);
    if (identity === this.#tlsIdentity && protocol === this.#transport.protocol) return;
    if (identity !== this.#tlsIdentity) this.#tls = tls;
    this.#tlsIdentity = identity;
    this.#transport = { ...(this.#tls !== undefined && { tls: this.#tls }), ...(protocol && { protocol }) };
    this.#transportByHost.clear();
  }

  /** Certificates are for the name, independently of its address. */
  #transportTo(host: string): Transport {
    const tls = this.#tls;
    if (tls?.hostname !== undefined || tls === undefined) return this.#transport;
    const known = this.#transportByHost.get(host);
    if (known !== undefined) return known;
    const own = { ...this.#transport, tls: { ...tls, hostname: host } };
    this.#transportByHost.set(host, own);
    return own;
  }

  /**
   * Selects the endpoint of the next call.
   *
   * @param client the client of the call, as in `UpstreamRequest.client`.
   * @param tried endpoints that failed this request, which are selected only if there is no other.
   * @param mayTunnel the call asks to switch protocols.
   * @returns `none` if no endpoint is ready, `overloaded` if the maximum of calls is reached.
   */
  pick(tried: readonly EndpointPool[], client?: string, mayTunnel = false): EndpointPool | "none" | "overloaded" {
    const { random, clock, maxRequests, maxWaiting } = this.#options;
    if (!mayTunnel && this.load.inFlight >= maxRequests && !this.#makeRoomFor(client)) return "overloaded";
    const candidates = tried.length === 0 ? this.#available : untried(this.#available, tried);
    const nowMs = candidates.length < 2 ? 0 : clock.monotonicMs();
    const member = pickEndpoint(candidates, random, nowMs);
    if (member === undefined) return "none";
    const pool = this.#poolOf(member);
    if (mayTunnel) return pool.makeRoomForTunnel(client) ? pool : "overloaded";
    if (!pool.isBusy || this.load.waiting < maxWaiting || pool.makeRoomFor(client)) return pool;
    return "overloaded";
  }

  /**
   * Ends the newest call of the client with the most, or fails a pending one, so that one of `client` can be sent
   * instead.
   *
   * @returns false, without ending one, if `client` would have as many.
   */
  #makeRoomFor(client: string | undefined): boolean {
    const nowMs = this.#options.clock.monotonicMs();
    if (this.#clientCalls === undefined || nowMs >= this.#clientCalls.untilMs) {
      const calls = this.#members.flatMap(({ pool }) => pool?.callsInProgress ?? []);
      const knownMs = Math.max(calls.length, this.#members.length) * clientCallMs;
      this.#clientCalls = { calls: new ClientCalls(calls), untilMs: nowMs + knownMs };
    }
    if (this.#clientCalls.calls.displaceFor(client)) return true;
    return this.load.waiting > 0 && this.#members.some(({ pool }) => pool?.makeRoomFor(client) === true);
  }

  /**
   * Selects the endpoint of the next stream. A backend has no maximum of streams: the memory of clients bounds them.
   *
   * @param tried endpoints to which the stream could not be connected.
   * @returns undefined if no other endpoint is ready.
   */
  pickStream(tried: readonly EndpointPool[] = []): EndpointPool | undefined {
    const { random, clock } = this.#options;
    const member = pickEndpoint(untried(this.#available, tried), random, clock.monotonicMs());
    if (member === undefined) return undefined;
    const pool = this.#poolOf(member);
    return tried.includes(pool) ? undefined : pool;
  }

  /** Whether an endpoint has this `host:port`. */
  has(address: string): boolean {
    return (this.#addresses ??= new Set(this.#members.map((member) => member.address))).has(address);
  }

  /** Returns the state of every endpoint, for operators. */
  endpoints(): readonly EndpointState[] {
    const { key, kind, namespace, name } = this.#backend;
    const nowMs = this.#options.clock.monotonicMs();
    return this.#members.map(({ endpoint, address, health, inFlight, checks, ejection }): EndpointState => {
      const { score, latencyMs, requests, consecutiveFailures, timesEjected } = health;
      return {
        backend: { key, kind, namespace, name },
        endpoint: endpoint.name,
        address,
        health: score,
        requests,
        latencyMs,
        pending: inFlight,
        consecutiveFailures,
        timesEjected,
        ejectedForMs: ejection === undefined ? 0 : Math.max(0, ejection.untilMs - nowMs),
        failsChecks: checks?.isFailing ?? false,
      };
    });
  }

  /**
   * Describes the candidates of `pick` for the log: their number, and why other endpoints are excluded.
   *
   * @param tried as for `pick`.
   */
  choice(tried: readonly EndpointPool[]): { readonly inUse: number; readonly leftOut: readonly string[] } {
    const candidates = untried(this.#available, tried);
    const nowMs = this.#options.clock.monotonicMs();
    const leftOut = this.#members.filter((member) => !candidates.includes(member));
    const reported = leftOut.slice(0, maxReportedEndpoints).map((member) => {
      return `${member.address}: ${whyLeftOut(member, tried, nowMs)}`;
    });
    return { inUse: candidates.length, leftOut: reported };
  }

  onFailed(pool: EndpointPool): void {
    if (!deservesEjection(pool.failuresToEject)) return;
    const members = this.#members;
    const member = members.find((candidate) => candidate.pool === pool);
    if (member === undefined || member.ejection !== undefined) return;
    const out = members.filter(({ ejection }) => ejection !== undefined).length;
    if (mayEject(members.length, out)) {
      this.#eject(member);
    } else {
      const fields = { ...this.#named(member), endpoints: members.length, ejected: out };
      this.#options.log.debug(fields, "endpoint not ejected, since most of the others are");
    }
  }

  /** Fields for the log. */
  #named({ address, health: { consecutiveFailures } }: Member): object {
    return { backend: this.#backend.key, endpoint: address, consecutiveFailures };
  }

  /** Closes the backend when no snapshot contains it. Calls in progress finish. */
  close(): void {
    this.#isClosed = true;
    this.#closeNames();
    for (const member of this.#members) member.close();
  }

  /** Closes every connection now. */
  destroy(): void {
    this.close();
    for (const { pool } of this.#members) pool?.destroy();
  }

  #closeNames(): void {
    for (const name of this.#names.values()) name.close();
    this.#names.clear();
  }

  #eject(member: Member): void {
    const { clock, random } = this.#options;
    const ms = ejectionMs(member.health.timesEjected, random());
    this.#poolOf(member).countEjection();
    const timer = clock.setTimer(ms, () => {
      member.ejection = undefined;
      this.#options.log.debug(this.#named(member), "endpoint returned");
      this.#choose();
    });
    member.ejection = { timer, untilMs: clock.monotonicMs() + ms };
    const { timesEjected } = member.health;
    this.#options.log.debug({ ...this.#named(member), timesEjected, forMs: Math.round(ms) }, "endpoint ejected");
    this.#choose();
  }

  /** Returns the pool of a member, which its first call opens. */
  #poolOf(member: Member): EndpointPool {
    if (member.pool !== undefined) return member.pool;
    const pool = new EndpointPool({ endpoint: member.endpoint, ...member.transport }, this, this.#options);
    // A request of an older snapshot may be the first one of this member.
    if (this.#isClosed) pool.close();
    member.pool = pool;
    return pool;
  }

  #rebuild(): void {
    const before = new Map(this.#members.map((member) => [member.key, member]));
    const kept = new Map<string, Member>();
    const added: Member[] = [];
    for (const member of this.#backend.endpoints.flatMap((endpoint) => this.#membersOf(endpoint))) {
      const { key } = member;
      if (kept.has(key)) continue;
      const known = before.get(key);
      if (known?.transport === member.transport) {
        // The equal object of the current snapshot, so that the previous one does not stay in memory.
        known.endpoint = member.endpoint;
        kept.set(key, known);
        before.delete(key);
      } else {
        kept.set(key, this.#checked(member));
        added.push(member);
      }
    }
    const gone = [...before.values()];
    for (const member of gone) member.close();
    if (gone.length + added.length > 0) this.#logChange(added, gone, kept.size);
    this.#members = [...kept.values()];
    this.#addresses = undefined;
    this.#choose();
  }

  #logChange(added: readonly Member[], removed: readonly Member[], endpoints: number): void {
    const { log } = this.#options;
    if (!log.isLevelEnabled("debug")) return;
    const addresses = (members: readonly Member[]): readonly string[] =>
      members.slice(0, maxReportedEndpoints).map(({ address }) => address);
    const fields = { backend: this.#backend.key, endpoints, added: addresses(added), removed: addresses(removed) };
    log.debug(fields, "endpoints changed");
  }

  /** Starts the health checks of a new member. */
  #checked(member: Member): Member {
    const { healthChecks, clock, random, addresses, sweeper, log } = this.#options;
    if (healthChecks === undefined || this.#backend.ai !== undefined) return member;
    if (member.transport.protocol === "udp") return member;
    const target = { endpoint: member.endpoint, ...member.transport };
    member.checks = new HealthChecks({
      ...{ ...healthChecks, target, clock, random, addresses, sweeper, log },
      onChange: () => this.#choose(),
    });
    return member;
  }

  /**
   * Returns a member per permitted address, or for all addresses if none is permitted, so that calls fail with the
   * reason. Until the host name is resolved, each call resolves it when it connects.
   */
  #membersOf(endpoint: Endpoint): readonly Member[] {
    const transport = this.#transportTo(endpoint.host);
    const guard = this.#options.addresses;
    const resolved = this.#names.get(endpoint.host)?.addresses ?? [];
    const permitted = resolved.filter((address) => guard.denialReason(address, endpoint.port) === undefined);
    const addresses = permitted.length === 0 ? resolved : permitted;
    if (addresses.length === 0) return [new Member(endpoint, transport)];
    return addresses.map((host) => new Member({ ...endpoint, host }, transport));
  }

  #choose(): void {
    const isIn = ({ ejection, checks }: Member): boolean => ejection === undefined && checks?.isFailing !== true;
    const available = this.#members.filter(isIn);
    this.#available = available.length === 0 || available.length === this.#members.length ? this.#members : available;
  }
}

/** Maximum number of endpoints in a line of the log. */
const maxReportedEndpoints = 10;

/**
 * The time for which the calls of each client are not read again, for each call or endpoint: to read 16,384 takes
 * milliseconds, and a client that has ended its calls meanwhile and begun others seems to have none.
 */
const clientCallMs = 0.005;

function whyLeftOut({ pool, checks, ejection }: Member, tried: readonly EndpointPool[], nowMs: number): string {
  if (ejection !== undefined) return `ejected for another ${Math.max(0, Math.round(ejection.untilMs - nowMs))} ms`;
  if (checks?.isFailing === true) return "fails its health checks";
  return pool !== undefined && tried.includes(pool) ? "has failed this request" : "not ready";
}

function untried(members: readonly Member[], tried: readonly EndpointPool[]): readonly Member[] {
  const fresh = members.filter(({ pool }) => pool === undefined || !tried.includes(pool));
  return fresh.length === 0 ? members : fresh;
}
