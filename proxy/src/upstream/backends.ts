/**
 * The backends of this worker. They are kept across snapshots: a new snapshot changes only the backends that differ.
 *
 * A request keeps the credentials of the snapshot with which it started. They belong to the server of a Backend, so a
 * Backend with another server, or other TLS settings, gets another handle, and requests of older snapshots continue
 * with the previous one. The endpoints of a Service change frequently, and the gateway has no credentials for them.
 */
import type { Timer } from "@gatewayproxy/runtime/clock";
import type { Steps } from "@gatewayproxy/runtime/steps";
import type { Backend, BackendKey } from "../ir/snapshot.ts";
import { LocalPorts } from "../connect/local-ports.ts";
import { BackendHandle, type BackendOptions } from "./backend-handle.ts";
import { ConnectionSweeper } from "./connection-sweeper.ts";
import type { EndpointState } from "../ir/endpoint-state.ts";
import { EndpointSockets } from "./endpoint-sockets.ts";
import { NameBudget } from "./name-budget.ts";
import { tlsIdentity } from "../connect/tls-identity.ts";

interface Held {
  readonly handle: BackendHandle;
  readonly identity: string;
}

/** Interval of checks for idle connections. Those without a call since the last check are closed. */
const idleLookMs = 300_000;

export class Backends {
  readonly #options: BackendOptions;
  #held: ReadonlyMap<BackendKey, Held> = new Map();
  /** The backends of the last snapshot, in its order. */
  #backends: readonly Backend[] = [];
  #handles: ReadonlyMap<BackendKey, BackendHandle> = new Map();
  /** The handles that `closeRemoved` closes. */
  #removed = new Set<BackendHandle>();
  readonly #upkeep: Timer;

  constructor(options: Omit<BackendOptions, "sweeper" | "nameBudget" | "waitingCalls" | "sockets" | "localPorts">) {
    const sweeper = new ConnectionSweeper(options.clock);
    const sockets = new EndpointSockets(options.maxSockets);
    const localPorts = new LocalPorts(options.clock, options.maxKeptPorts);
    const waitingCalls = { waiting: 0 };
    this.#options = { ...options, sweeper, sockets, localPorts, nameBudget: new NameBudget(), waitingCalls };
    this.#upkeep = options.clock.every(idleLookMs, () => {
      localPorts.sweep();
      for (const { handle } of this.#held.values()) handle.closeIdle();
    });
  }

  /** The handles of the last snapshot. */
  get handles(): ReadonlyMap<BackendKey, BackendHandle> {
    return this.#handles;
  }

  /**
   * Opens new backends and keeps existing ones. Removed backends continue until `closeRemoved`. A step for each
   * backend, which may have a thousand endpoints. Must not be called again before the last step.
   *
   * @param backends sorted by their keys.
   * @returns the same map if each backend has the handle that it had, and no Backend has changed.
   */
  *reconcile(backends: readonly Backend[]): Steps<ReadonlyMap<BackendKey, BackendHandle>> {
    const before = this.#backends;
    this.#backends = backends;
    // Most are where they were.
    const hasSameKeys = backends.length === before.length && backends.every(({ key }, at) => before[at]?.key === key);
    const held = new Map<BackendKey, Held>();
    for (const [at, backend] of backends.entries()) {
      if (hasSameKeys && before[at] === backend) continue;
      held.set(backend.key, this.#heldFor(backend));
      yield;
    }
    if (!hasSameKeys) return this.#hold(held);
    const hasSameHandles = Array.from(held).every(([key, own]) => {
      // The endpoints of a Service are those of its handle. A Backend has settings, too.
      return this.#held.get(key) === own && own.handle.backend.kind === "Service";
    });
    return hasSameHandles ? this.#handles : this.#hold(new Map([...this.#held, ...held]));
  }

  /** Replaces all backends. */
  #hold(held: ReadonlyMap<BackendKey, Held>): ReadonlyMap<BackendKey, BackendHandle> {
    for (const [key, { handle }] of this.#held) if (held.get(key)?.handle !== handle) this.#removed.add(handle);
    this.#held = held;
    this.#handles = new Map(Array.from(held, ([key, { handle }]) => [key, handle]));
    return this.#handles;
  }

  #heldFor(backend: Backend): Held {
    const known = this.#held.get(backend.key);
    // An unchanged backend is the same object (`ReceivedParts`).
    if (known !== undefined && known.handle.backend === backend) return known;
    const identity = identityOf(backend);
    if (known?.identity !== identity) return { handle: new BackendHandle(backend, this.#options), identity };
    known.handle.update(backend);
    return known;
  }

  /** Closes removed backends, which no current rule uses, after their calls. */
  closeRemoved(): void {
    for (const handle of this.#removed) handle.close();
    this.#removed.clear();
  }

  /** Returns the state of every endpoint of backends, for operators. @param keys absent: of all backends. */
  endpoints(keys: Iterable<BackendKey> = this.#held.keys()): readonly EndpointState[] {
    return Array.from(keys).flatMap((key) => this.#held.get(key)?.handle.endpoints() ?? []);
  }

  /** Whether any call waits for a connection. */
  get isContended(): boolean {
    return this.#options.waitingCalls.waiting > 0;
  }

  /** Closes every connection now. */
  destroy(): void {
    this.#upkeep.cancel();
    this.#options.sweeper.close();
    for (const { handle } of this.#held.values()) handle.destroy();
    for (const handle of this.#removed) handle.destroy();
  }
}

/** The identity of a backend, with which requests may share a handle. */
function identityOf({ kind, endpoints, protocol, tls, ai }: Backend): string {
  if (kind === "Service") return kind;
  const servers = endpoints.map(({ host, port }) => [host, port]);
  return JSON.stringify([kind, servers, protocol, tlsIdentity(tls), ai !== undefined]);
}
