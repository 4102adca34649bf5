/** The backends that this worker can call. They outlive snapshots: a new one changes only what it says anew. */
import type { Backend, BackendKey } from "../ir/snapshot.ts";
import { BackendHandle, type BackendOptions } from "./backend-handle.ts";
import type { EndpointState } from "./endpoint-state.ts";

export class Backends {
  readonly #options: BackendOptions;
  #handles: ReadonlyMap<BackendKey, BackendHandle> = new Map();

  constructor(options: BackendOptions) {
    this.#options = options;
  }

  /** Opens what is new, keeps what stays; what is gone finishes its calls and closes. */
  reconcile(backends: Readonly<Record<BackendKey, Backend>>): ReadonlyMap<BackendKey, BackendHandle> {
    const before = this.#handles;
    const handles = new Map<BackendKey, BackendHandle>();
    for (const backend of Object.values(backends)) {
      const known = before.get(backend.key);
      known?.update(backend);
      handles.set(backend.key, known ?? new BackendHandle(backend, this.#options));
    }
    for (const [key, handle] of before) if (!handles.has(key)) handle.close();
    this.#handles = handles;
    return handles;
  }

  /** Figures of every endpoint of every backend, for operators. */
  endpoints(): readonly EndpointState[] {
    return [...this.#handles.values()].flatMap((handle) => handle.endpoints());
  }

  /** Whether any call waits for a connection. */
  get isContended(): boolean {
    for (const { load } of this.#handles.values()) if (load.waiting > 0) return true;
    return false;
  }

  /** Closes every connection now. */
  destroy(): void {
    for (const handle of this.#handles.values()) handle.destroy();
  }
}
