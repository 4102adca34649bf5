import { memoised } from "@gatewayproxy/runtime/memoised";
import type { Backend, BackendKey } from "./snapshot.ts";

/** Returns the backends of a snapshot by their keys. */
export const backendsByKey = memoised(
  (backends: readonly Backend[]): ReadonlyMap<BackendKey, Backend> =>
    new Map(backends.map((backend) => [backend.key, backend])),
);
