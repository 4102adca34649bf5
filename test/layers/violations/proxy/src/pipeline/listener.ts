// Breaks the layers on purpose: a cycle with exchange.ts. The import of ir is legal.
import type { Snapshot } from "../ir/snapshot.ts";
import type { Exchange } from "./exchange.ts";

export interface Listener {
  readonly exchanges: readonly Exchange[];
  readonly snapshot?: Snapshot;
}
