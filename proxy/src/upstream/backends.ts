/**
 * The backends that this worker can call. They outlive snapshots: a new one changes only what it says anew.
 *
 * A request keeps the credentials of the snapshot that it began with. They are for the server that a Backend named there,
 * so a Backend that names another server, or other TLS settings, is another handle; requests of older snapshots go on
 * with the former one. The endpoints of a Service change all the time, and the gateway has no credentials for them.
 */
import type { Timer } from "@gatewayproxy/runtime/clock";
import type { Steps } from "@gatewayproxy/runtime/steps";
import type { Backend, BackendKey } from "../ir/snapshot.ts";
import { BackendHandle, type BackendOptions } from "./backend-handle.ts";
import type { EndpointState } from "../ir/endpoint-state.ts";
import { tlsIdentity } from "../connect/tls-identity.ts";

interface Held {
  readonly handle: BackendHandle;
  readonly identity: string;
}

/** Connections without a call between two looks are closed, after one to two times as long. */
const idleLookMs = 300_000;

export class Backends {
  readonly #options: BackendOptions;
  #held: ReadonlyMap<BackendKey, Held> = new Map();
  /** Those that `closeFormer` is to close. */
  #former = new Set<BackendHandle>();
  readonly #upkeep: Timer;

  constructor(options: BackendOptions) {
    this.#options = options;
    this.#upkeep = options.clock.every(idleLookMs, () => {
      for (const { handle } of this.#held.values()) for (const pool of handle.pools) pool.closeIdle();
    });
  }

  /**
   * Opens what is new, keeps what stays. What is gone goes on until `closeFormer`. A step for each backend, which may have
   * a thousand endpoints; no other call may begin before the last.
   */
  *reconcile(backends: Readonly<Record<BackendKey, Backend>>): Steps<ReadonlyMap<BackendKey, BackendHandle>> {
    const held = new Map<BackendKey, Held>();
    for (const backend of Object.values(backends)) {
      held.set(backend.key, this.#heldFor(backend));
      yield;
    }
    for (const [key, { handle }] of this.#held) if (held.get(key)?.handle !== handle) this.#former.add(handle);
    this.#held = held;
    return new Map(Array.from(held, ([key, { handle }]) => [key, handle]));
  }

  #heldFor(backend: Backend): Held {
    const known = this.#held.get(backend.key);
    // What has not changed is the same object (`ReceivedParts`).
    if (known !== undefined && known.handle.backend === backend) return known;
    const identity = identityOf(backend);
    if (known?.identity !== identity) return { handle: new BackendHandle(backend, this.#options), identity };
    known.handle.update(backend);
    return known;
  }

  /** The rules in force name none of those that are gone: they finish their calls and close. */
  closeFormer(): void {
    for (const handle of this.#former) handle.close();
    this.#former.clear();
  }

  /** Figures of every endpoint of every backend, for operators. */
  endpoints(): readonly EndpointState[] {
    return [...this.#held.values()].flatMap(({ handle }) => handle.endpoints());
  }

  /** Whether any call waits for a connection. */
  get isContended(): boolean {
    for (const { handle } of this.#held.values()) if (handle.load.waiting > 0) return true;
    return false;
  }

  /** Closes every connection now. */
  destroy(): void {
    this.#upkeep.cancel();
    for (const { handle } of this.#held.values()) handle.destroy();
    for (const handle of this.#former) handle.destroy();
  }
}

/** What a backend is for as long as requests may use it by one name. */
function identityOf({ kind, endpoints, protocol, tls, ai }: Backend): string {
  if (kind === "Service") return kind;
  const servers = endpoints.map(({ host, port }) => [host, port]);
  return JSON.stringify([kind, servers, protocol, tlsIdentity(tls), ai !== undefined]);
}
