/**
 * The backends that this worker can call. They outlive snapshots: a new one keeps the pools of every endpoint that is
 * still there (warm connections, calls under way) and retires the rest.
 */
import type { Backend, BackendKey, Endpoint, UpstreamTls } from "../ir/snapshot.ts";
import { EndpointPool, type PoolOptions } from "./endpoint-pool.ts";
import { RetryBudget } from "./retry-budget.ts";

/** One backend of the current snapshot, with an open pool per ready endpoint. */
export interface BackendHandle {
  readonly backend: Backend;
  readonly pools: readonly EndpointPool[];
  readonly retries: RetryBudget;
}

export class Backends {
  readonly #options: PoolOptions;
  /** Per endpoint and TLS settings, whichever backends name it. */
  #pools = new Map<string, EndpointPool>();
  #handles: ReadonlyMap<BackendKey, BackendHandle> = new Map();

  constructor(options: PoolOptions) {
    this.#options = options;
  }

  /** Opens what is new, keeps what stays; what is gone finishes its calls and closes. */
  reconcile(backends: Readonly<Record<BackendKey, Backend>>): ReadonlyMap<BackendKey, BackendHandle> {
    const kept = new Map<string, EndpointPool>();
    const handles = new Map<BackendKey, BackendHandle>();
    for (const backend of Object.values(backends)) {
      const pools = backend.endpoints.map((endpoint) => {
        const key = poolKey(backend.key, endpoint, backend.tls);
        const pool = kept.get(key) ?? this.#pools.get(key) ?? new EndpointPool(endpoint, backend.tls, this.#options);
        kept.set(key, pool);
        return pool;
      });
      const retries = this.#handles.get(backend.key)?.retries ?? new RetryBudget();
      handles.set(backend.key, { backend, pools, retries });
    }
    for (const [key, pool] of this.#pools) if (!kept.has(key)) pool.close();
    this.#pools = kept;
    this.#handles = handles;
    return handles;
  }

  get(key: BackendKey): BackendHandle | undefined {
    return this.#handles.get(key);
  }

  /** Closes every connection now. */
  destroy(): void {
    for (const pool of this.#pools.values()) pool.destroy();
  }
}

/**
 * Chooses an endpoint: of two drawn at random the one with fewer requests in flight, which spreads load almost as well
 * as asking all and never stampedes onto one (Mitzenmacher, "The Power of Two Choices", 2001).
 *
 * @param random 0 ≤ random() < 1.
 * @returns nothing when no endpoint is ready.
 */
export function pickEndpoint(pools: readonly EndpointPool[], random: () => number): EndpointPool | undefined {
  if (pools.length < 2) return pools[0];
  const first = Math.floor(random() * pools.length);
  const second = (first + 1 + Math.floor(random() * (pools.length - 1))) % pools.length;
  const [a, b] = [pools[first], pools[second]];
  return a !== undefined && b !== undefined && b.inFlight < a.inFlight ? b : a;
}

function poolKey(backend: BackendKey, endpoint: Endpoint, tls: UpstreamTls | undefined): string {
  return `${backend} ${endpoint.name} ${endpoint.host}:${endpoint.port} ${tls === undefined ? "" : JSON.stringify(tls)}`;
}
