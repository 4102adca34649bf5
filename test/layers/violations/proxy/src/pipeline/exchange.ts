// The other half of the cycle.
import type { Listener } from "./listener.ts";

export interface Exchange {
  readonly listener: Listener;
}
