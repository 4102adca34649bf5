/**
 * One backend as requests use it: a pool per address, which of them gets the next call, and which of them is left out for
 * a while. It stays the same object for as long as any snapshot names the backend, so its state survives every edit.
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
import { NameWatch } from "./name-watch.ts";
import { RetryBudget } from "./retry-budget.ts";
import type { UpstreamSettings } from "./upstream-settings.ts";
import { tlsIdentity } from "../connect/tls-identity.ts";

export interface BackendOptions extends PoolOptions, UpstreamSettings {
  readonly clock: Clock;
  /** 0 ≤ random() < 1 */
  readonly random: () => number;
  readonly resolveName: ResolveName;
  readonly log: Logger;
}

interface Member {
  readonly pool: EndpointPool;
  readonly checks: HealthChecks | undefined;
  /** Until it is back; absent where it is in. */
  ejection: { readonly timer: Timer; readonly untilMs: number } | undefined;
}

export class BackendHandle implements PoolOwner {
  readonly #options: BackendOptions;
  #backend: Backend;
  /** Its TLS settings, the same object for as long as they are the same: contexts and endpoints are kept by it. */
  #tls: UpstreamTls | undefined;
  /** By host name: the settings where they name none. */
  #tlsByHost = new Map<string, UpstreamTls>();
  #tlsIdentity = "";
  #tlsVersion = 0;
  /** By endpoint, address and TLS settings. */
  #members = new Map<string, Member>();
  /** By host name. */
  #names = new Map<string, NameWatch>();
  #pools: readonly EndpointPool[] = [];
  /** Those of `pools` that are in; all where none is. */
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

  /** One per address of each ready endpoint. */
  get pools(): readonly EndpointPool[] {
    return this.#pools;
  }

  /** Opens what is new, keeps what stays; what is gone finishes its calls and closes. */
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
      this.#names.set(host, new NameWatch({ host, clock, resolve, log, onChange: () => this.#rebuild() }));
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

  /** A certificate is for the name, whatever its address. */
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
   * The endpoint for the next call.
   *
   * @param client whose call it is, as `UpstreamRequest.client`.
   * @param tried that failed this request already, and are taken only where there is no other.
   * @param mayTunnel the call asks to switch protocols.
   * @returns `none` where no endpoint is ready, `overloaded` where there are as many calls as may be.
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

  /** Figures of every endpoint, for operators. */
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
   * What `pick` chooses from, for the log: how many endpoints, and why others are left out.
   *
   * @param tried as for `pick`.
   */
  choice(tried: readonly EndpointPool[]): { readonly inUse: number; readonly leftOut: readonly string[] } {
    const candidates = untried(this.#available, tried);
    const nowMs = this.#options.clock.monotonicMs();
    const leftOut = [...this.#members.values()].filter(({ pool }) => !candidates.includes(pool));
    const told = leftOut.slice(0, maxToldLeftOut).map((member) => {
      return `${member.pool.address}: ${whyLeftOut(member, tried, nowMs)}`;
    });
    return { inUse: candidates.length, leftOut: told };
  }

  onFailed(pool: EndpointPool): void {
    if (!deservesEjection(pool.health)) return;
    const members = [...this.#members.values()];
    const member = members.find((candidate) => candidate.pool === pool);
    if (member === undefined || member.ejection !== undefined) return;
    const out = members.filter(({ ejection }) => ejection !== undefined).length;
    if (mayEject(members.length, out)) this.#eject(member);
    else {
      const fields = { ...this.#named(member), endpoints: members.length, ejected: out };
      this.#options.log.debug(fields, "endpoint not ejected, since most of the others are");
    }
  }

  /** For the log. */
  #named({ pool }: Member): object {
    const { consecutiveFailures } = pool.health;
    return { backend: this.#backend.key, endpoint: pool.address, consecutiveFailures };
  }

  /** No snapshot names the backend any more: calls under way are finished. */
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
      this.#options.log.debug(this.#named(member), "endpoint is back");
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
      members.slice(0, maxToldLeftOut).map(({ pool }) => pool.address);
    const fields = { backend: this.#backend.key, endpoints, added: addresses(added), removed: addresses(removed) };
    log.debug(fields, "endpoints changed");
  }

  #newMember(target: ConnectionTarget): Member {
    const pool = new EndpointPool(target, this, this.#options);
    const { healthChecks, clock, random, addresses } = this.#options;
    const checks =
      healthChecks === undefined || this.#backend.ai !== undefined
        ? undefined
        : new HealthChecks({
            ...{ ...healthChecks, target, clock, random, addresses, log: this.#options.log },
            onChange: () => this.#choose(),
          });
    return { pool, checks, ejection: undefined };
  }

  /**
   * One per address that is permitted; all where none is, so that calls fail with the reason. Until a name is resolved
   * the first call has it resolved on its own, as it connects.
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

/** Endpoints that one line of the log names. */
const maxToldLeftOut = 10;

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
