/** Makes spans of what a call asks of the store (semantic conventions for databases). */
import type { CounterStore } from "../model/counter-store.ts";
import type { ServiceTracing } from "./service-tracing.ts";

/** Where counters are. */
export type StoreKind = "memory" | "redis" | "memcache";

const systems = { memory: undefined, redis: "redis", memcache: "memcached" } as const;

/** Wraps a store. Keys are not shown, since they contain the values of descriptors. */
export function tracedStore(store: CounterStore, kind: StoreKind, tracing: ServiceTracing): CounterStore {
  const timed = <T>(operation: string, size: number, apply: () => T | Promise<T>): T | Promise<T> => {
    if (tracing.current.current?.attributes === undefined) return apply();
    const startMs = tracing.nowMs();
    const end = (isError: boolean): void => {
      tracing.child({
        name: `${operation} ${systems[kind] ?? kind}`,
        kind: kind === "memory" ? "internal" : "client",
        ...{ startMs, isError },
        attributes: {
          "db.system.name": systems[kind],
          "db.operation.name": operation,
          "db.operation.batch.size": size > 1 ? size : undefined,
          "error.type": isError ? "StoreError" : undefined,
        },
      });
    };
    try {
      const result = apply();
      if (!(result instanceof Promise)) {
        end(false);
        return result;
      }
      return result.then(
        (value) => {
          end(false);
          return value;
        },
        (error: unknown) => {
          end(true);
          throw error;
        },
      );
    } catch (error) {
      end(true);
      throw error;
    }
  };
  // A store has these only if it is capable of them.
  const applyGroups = store.applyGroups?.bind(store);
  const deleteByPrefix = store.deleteByPrefix?.bind(store);
  const connections = store.connections?.bind(store);
  const commands = store.commands?.bind(store);
  const liveCounters = store.liveCounters?.bind(store);
  return {
    apply: (steps) => timed("count", steps.length, () => store.apply(steps)),
    ...(applyGroups && { applyGroups: (steps) => timed("count", steps.length, () => applyGroups(steps)) }),
    change: (changes) => store.change(changes),
    ...(deleteByPrefix && { deleteByPrefix }),
    isHealthy: () => store.isHealthy(),
    ...(connections && { connections }),
    ...(commands && { commands }),
    ...(liveCounters && { liveCounters }),
    close: () => store.close(),
  };
}
