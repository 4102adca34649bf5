import { vi } from "vitest";

/** The bounds of a wait, in ms. */
export interface WaitBounds {
  readonly timeout?: number;
  readonly interval?: number;
}

/**
 * Resolves when a check passes; rejects with its last error. The default timeout is 20 s, not vitest's one second: on a
 * busy machine, what takes a moment can take some seconds.
 */
export function waitFor<Value>(check: () => Value | Promise<Value>, bounds: WaitBounds = {}): Promise<Value> {
  return vi.waitFor(check, { timeout: 20_000, ...bounds });
}
