/**
 * Configuration from a folder, polled at short intervals. Polling needs no file events, so it also sees changes that
 * they miss: a ConfigMap's `..data` swap, a subPath mount, a network file system. A change is applied once two polls in
 * a row agree, so that files are not read while they are being copied; or after a few polls, so that one file that
 * keeps changing does not block the others.
 */
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import { errorMessage } from "@gatewayproxy/runtime/thrown-value";
import { ConfigSet } from "./config-set.ts";
import type { ConfigSource, ConfigUpdate } from "./config-source.ts";
import type { StoreAbilities } from "./descriptor-tree.ts";
import { listRuntimeFiles, type RuntimeDirectory, type RuntimeFile, readRuntimeFiles } from "./runtime-directory.ts";

/** The folder, and how it is read. */
export interface FileSourceOptions {
  /** The folder and its layout. */
  readonly layout: RuntimeDirectory;
  /** Whether several files may describe one domain (MERGE_DOMAIN_CONFIG). */
  readonly mergesDomains: boolean;
  /** What the store of the counters can do. */
  readonly abilities?: StoreAbilities;
  /** Interval between two polls, in ms. A change is served after at most two polls if no other change follows. */
  readonly pollIntervalMs: number;
  /** Times the polls. */
  readonly clock: Clock;
}

/**
 * Maximum number of successive polls that find changes. The next one is applied even if the files are still changing.
 */
const maxChangedPolls = 5;

/** The configuration in one folder. */
export class FileSource implements ConfigSource {
  readonly #options: FileSourceOptions;
  readonly #set: ConfigSet;
  #onUpdate: ((update: ConfigUpdate) => void) | undefined;
  #timer: Timer | undefined;
  /** Fingerprints of the last poll, and of the state that was emitted last. */
  #polledFingerprint: string | undefined;
  #servedFingerprint: string | undefined;
  /** Number of successive polls that differed from the served state. */
  #changedPolls = 0;
  #last: ConfigUpdate = { parts: [], problems: [], warnings: [] };

  constructor(options: FileSourceOptions) {
    this.#options = options;
    this.#set = new ConfigSet(options.mergesDomains, options.abilities);
  }

  start(onUpdate: (update: ConfigUpdate) => void): void {
    this.#onUpdate = onUpdate;
    void this.#poll();
  }

  close(): void {
    this.#onUpdate = undefined;
    this.#timer?.cancel();
  }

  /** Never rejects. */
  async #poll(): Promise<void> {
    const isFirst = this.#servedFingerprint === undefined;
    try {
      const files = await listRuntimeFiles(this.#options.layout);
      const fingerprint = JSON.stringify(files);
      this.#changedPolls = fingerprint === this.#servedFingerprint ? 0 : this.#changedPolls + 1;
      const isReady = isFirst || fingerprint === this.#polledFingerprint || this.#changedPolls > maxChangedPolls;
      if (this.#changedPolls > 0 && isReady) await this.#apply(files, fingerprint);
      this.#polledFingerprint = fingerprint;
    } catch (error) {
      this.#reportUnreadable(errorMessage(error));
    }
    if (this.#onUpdate === undefined) return;
    this.#timer = this.#options.clock.setTimer(this.#options.pollIntervalMs, () => void this.#poll());
  }

  async #apply(files: readonly RuntimeFile[], fingerprint: string): Promise<void> {
    const texts = await readRuntimeFiles(files);
    this.#servedFingerprint = fingerprint;
    this.#changedPolls = 0;
    this.#last = this.#set.update(texts);
    this.#onUpdate?.(this.#last);
  }

  /** Keeps the served configuration when the folder cannot be read, and reports the reason once. */
  #reportUnreadable(reason: string): void {
    if (this.#servedFingerprint === reason) return;
    this.#servedFingerprint = reason;
    this.#polledFingerprint = undefined;
    const message = `cannot read the configuration folder ${this.#options.layout.directory}: ${reason}`;
    this.#onUpdate?.({ ...this.#last, problems: [{ message }] });
  }
}
