// Breaks the layers on purpose: a type-only import counts.
import type { Listener } from "../pipeline/listener.ts";

export interface Snapshot {
  readonly listeners: readonly Listener[];
}
