/**
 * A backend as requests use it: a pool per address, the selection of the next one, and ejection. It stays the same object as
 * long as any snapshot contains the backend, so its state is kept across edits.
 */
import { isIP } from "node:net";
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import type { Logger } from "@gatewayproxy/runtime/log";
import type { Backend, Endpoint, UpstreamTls } from "../ir/snapshot.ts";
import { pickEndpoint } from "./balance.ts";
import type { ConnectionTarget } from "./connection.ts";
import { deservesEjection, ejectionMs, mayEject } from "./ejection.ts";
import { type BackendLoad, EndpointPool, type PoolOptions, type PoolOwner } from "./endpoint-pool.ts";
import type { EndpointState } from "../ir/endpoint-state.ts";
import { HealthChecks } from "./health-checks.ts";
import type { ResolveName } from "@gatewayproxy/runtime/host-names";
import { HostResolver } from "./host-resolver.ts";
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
  /** Receives changes of endpoints, ejections and failed checks. */
  readonly log: Logger;
}

interface Member {
  readonly pool: EndpointPool;
  readonly checks: HealthChecks | undefined;
  /** Undefined if it is not ejected. */
  ejection: { readonly timer: Timer; readonly untilMs: number } | undefined;
}

/** A backend of one worker. `update` takes changes, `close` lets calls in progress finish, `destroy` does not. */
export class BackendHandle implements PoolOwner {
  readonly #options: BackendOptions;
  #backend: Backend;
  /** Its TLS settings, the same object as long as they do not change, since it identifies contexts and endpoints. */
  #tls: UpstreamTls | undefined;
  /** The settings with each host name, if they have none. */
  #tlsByHost = new Map<string, UpstreamTls>();
  #tlsIdentity = "";
  #tlsVersion = 0;
  /** By endpoint, address and TLS settings. */
  #members = new Map<string, Member>();
  /** By host name. */
  #names = new Map<string, HostResolver>();
  #pools: readonly EndpointPool[] = [];
  /** The pools that are not ejected; all pools if all are. */
  #available: readonly EndpointPool[] = [];
  readonly retries = new RetryBudget();
  readonly load: BackendLoad = { inFlight: 0, waiting: 0 };

  constructor(backend: Backend, options: BackendOptions) {
    this.#options = options;
    this.#backend = backend;
    this.update(backend);
  }

  get backend(): Backend {
    return this.#backend;
  }

  /** A pool per address of each ready endpoint. */
  get pools(): readonly EndpointPool[] {
    return this.#pools;
  }

  /** Opens new pools and keeps existing ones. Removed pools finish their calls and close. */
  update(backend: Backend): void {
    this.#backend = backend;
    this.#takeTls(backend.tls);
    const hosts = new Set(backend.endpoints.map(({ host }) => host).filter((host) => isIP(host) === 0));
    for (const [host, name] of this.#names) {
      if (hosts.has(host)) continue;
      name.close();
      this.#names.delete(host);
    }
    const { clock, log, resolveName: resolve } = this.#options;
    for (const host of hosts) {
      if (this.#names.has(host)) continue;
      this.#names.set(host, new HostResolver({ host, clock, resolve, log, onChange: () => this.#rebuild() }));
    }
    this.#rebuild();
  }

  #takeTls(tls: UpstreamTls | undefined): void {
    const identity = tlsIdentity(tls);
    if (identity === this.#tlsIdentity) return;
    this.#tls = tls;
    this.#tlsByHost.clear();
    this.#tlsIdentity = identity;
    this.#tlsVersion++;
  }

  /** Certificates are for the name, independently of its address. */
  #tlsFor(host: string): UpstreamTls | undefined {
    const tls = this.#tls;
    if (tls?.hostname !== undefined || tls === undefined) return tls;
    const known = this.#tlsByHost.get(host);
    if (known !== undefined) return known;
    const own = { ...tls, hostname: host };
    this.#tlsByHost.set(host, own);
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
    if (!mayTunnel && this.load.inFlight >= maxRequests) return "overloaded";
    const candidates = tried.length === 0 ? this.#available : untried(this.#available, tried);
    const nowMs = candidates.length < 2 ? 0 : clock.monotonicMs();
    const pool = pickEndpoint(candidates, random, nowMs);
    if (pool === undefined) return "none";
    if (mayTunnel) return pool.makeRoomForTunnel(client) ? pool : "overloaded";
    if (!pool.isBusy || this.load.waiting < maxWaiting || pool.makeRoomFor(client)) return pool;
    return "overloaded";
  }

  /** Returns the state of every endpoint, for operators. */
  endpoints(): readonly EndpointState[] {
    const { key, kind, namespace, name } = this.#backend;
    const nowMs = this.#options.clock.monotonicMs();
    return Array.from(this.#members.values(), ({ pool, checks, ejection }): EndpointState => {
      const { score, latencyMs, requests, consecutiveFailures, timesEjected } = pool.health;
      return {
        backend: { key, kind, namespace, name },
        endpoint: pool.endpoint.name,
        address: pool.address,
        health: score,
        requests,
        latencyMs,
        pending: pool.inFlight,
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
    const leftOut = [...this.#members.values()].filter(({ pool }) => !candidates.includes(pool));
    const reported = leftOut.slice(0, maxReportedEndpoints).map((member) => {
      return `${member.pool.address}: ${whyLeftOut(member, tried, nowMs)}`;
    });
    return { inUse: candidates.length, leftOut: reported };
  }

  onFailed(pool: EndpointPool): void {
    if (!deservesEjection(pool.health)) return;
    const members = [...this.#members.values()];
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
  #named({ pool }: Member): object {
    const { consecutiveFailures } = pool.health;
    return { backend: this.#backend.key, endpoint: pool.address, consecutiveFailures };
  }

  /** Closes the backend when no snapshot contains it. Calls in progress finish. */
  close(): void {
    this.#closeNames();
    for (const member of this.#members.values()) closeMember(member);
  }

  /** Closes every connection now. */
  destroy(): void {
    this.close();
    for (const pool of this.#pools) pool.destroy();
  }

  #closeNames(): void {
    for (const name of this.#names.values()) name.close();
    this.#names.clear();
  }

  #eject(member: Member): void {
    const { clock, random } = this.#options;
    const ms = ejectionMs(member.pool.health.timesEjected, random());
    member.pool.countEjection();
    const timer = clock.setTimer(ms, () => {
      member.ejection = undefined;
      this.#options.log.debug(this.#named(member), "endpoint returned");
      this.#choose();
    });
    member.ejection = { timer, untilMs: clock.monotonicMs() + ms };
    const { timesEjected } = member.pool.health;
    this.#options.log.debug({ ...this.#named(member), timesEjected, forMs: Math.round(ms) }, "endpoint ejected");
    this.#choose();
  }

  #rebuild(): void {
    const kept = new Map<string, Member>();
    for (const target of this.#backend.endpoints.flatMap((endpoint) => this.#targetsOf(endpoint))) {
      const { endpoint, protocol, tls } = target;
      const key = JSON.stringify([endpoint, protocol, tls?.hostname, this.#tlsVersion]);
      if (!kept.has(key)) kept.set(key, this.#members.get(key) ?? this.#newMember(target));
    }
    const gone = [...this.#members].filter(([key]) => !kept.has(key)).map(([, member]) => member);
    const added = [...kept].filter(([key]) => !this.#members.has(key)).map(([, member]) => member);
    for (const member of gone) closeMember(member);
    if (gone.length + added.length > 0) this.#logChange(added, gone, kept.size);
    this.#members = kept;
    this.#pools = Array.from(kept.values(), ({ pool }) => pool);
    this.#choose();
  }

  #logChange(added: readonly Member[], removed: readonly Member[], endpoints: number): void {
    const { log } = this.#options;
    if (!log.isLevelEnabled("debug")) return;
    const addresses = (members: readonly Member[]): readonly string[] =>
      members.slice(0, maxReportedEndpoints).map(({ pool }) => pool.address);
    const fields = { backend: this.#backend.key, endpoints, added: addresses(added), removed: addresses(removed) };
    log.debug(fields, "endpoints changed");
  }

  #newMember(target: ConnectionTarget): Member {
    const pool = new EndpointPool(target, this, this.#options);
    const { healthChecks, clock, random, addresses, sweeper } = this.#options;
    const checks =
      healthChecks === undefined || this.#backend.ai !== undefined
        ? undefined
        : new HealthChecks({
            ...{ ...healthChecks, target, clock, random, addresses, sweeper, log: this.#options.log },
            onChange: () => this.#choose(),
          });
    return { pool, checks, ejection: undefined };
  }

  /**
   * Returns a target per permitted address, or for all addresses if none is permitted, so that calls fail with the reason.
   * Until the host name is resolved, each call resolves it when it connects.
   */
  #targetsOf(endpoint: Endpoint): readonly ConnectionTarget[] {
    const { protocol } = this.#backend;
    const tls = this.#tlsFor(endpoint.host);
    const guard = this.#options.addresses;
    const resolved = this.#names.get(endpoint.host)?.addresses ?? [];
    const permitted = resolved.filter((address) => guard.denialReason(address, endpoint.port) === undefined);
    const addresses = permitted.length === 0 ? resolved : permitted;
    const shared = {
      ...(tls !== undefined && { tls }),
      ...(protocol && { protocol }),
    };
    if (addresses.length === 0) return [{ endpoint, ...shared }];
    return addresses.map((host) => ({ endpoint: { ...endpoint, host }, ...shared }));
  }

  #choose(): void {
    const isIn = ({ ejection, checks }: Member): boolean => ejection === undefined && checks?.isFailing !== true;
    const available = [...this.#members.values()].filter(isIn).map(({ pool }) => pool);
    this.#available = available.length === 0 ? this.#pools : available;
  }
}

/** Maximum number of endpoints in a line of the log. */
const maxReportedEndpoints = 10;

function whyLeftOut({ pool, checks, ejection }: Member, tried: readonly EndpointPool[], nowMs: number): string {
  if (ejection !== undefined) return `ejected for another ${Math.max(0, Math.round(ejection.untilMs - nowMs))} ms`;
  if (checks?.isFailing === true) return "fails its health checks";
  return tried.includes(pool) ? "has failed this request" : "not ready";
}

function closeMember({ pool, checks, ejection }: Member): void {
  ejection?.timer.cancel();
  checks?.close();
  pool.close();
}

function untried(pools: readonly EndpointPool[], tried: readonly EndpointPool[]): readonly EndpointPool[] {
  const fresh = pools.filter((pool) => !tried.includes(pool));
  return fresh.length === 0 ? pools : fresh;
}
