/** The state of a key set that a worker reads from its URL, for operators. It has no key. */
export interface KeySetState {
  readonly uri: string;
  /** Keys in use; absent before the first valid set, while no token can be verified. */
  readonly keys?: number;
  /** When the set was last read, in milliseconds since the epoch; absent before. */
  readonly readMs?: number;
  /** The last read that failed, also if a later one succeeded; absent if none failed. */
  readonly lastError?: { readonly message: string; readonly atMs: number };
}
