/**
 * Configuration from a folder, looked at in short intervals. Polling needs no file events, so it sees what they miss: a
 * ConfigMap's `..data` swap, a subPath mount, a network file system. A change is taken once two looks in a row agree, so
 * that files which are being copied are not read half; or after a few looks, so that a file that changes without end does
 * not keep the others from being served.
 */
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import { ConfigSet } from "./config-set.ts";
import type { ConfigSource, ConfigUpdate } from "./config-source.ts";
import { listRuntimeFiles, type RuntimeDirectory, type RuntimeFile, readRuntimeFiles } from "./runtime-directory.ts";

export interface FileSourceOptions {
  readonly layout: RuntimeDirectory;
  readonly mergesDomains: boolean;
  /** Between two looks, in ms; a change is served after at most two, where no other follows. */
  readonly pollIntervalMs: number;
  readonly clock: Clock;
}

/** Looks that disagree with what is served, until one is taken whether or not the next would agree. */
const longestWait = 5;

export class FileSource implements ConfigSource {
  readonly #options: FileSourceOptions;
  readonly #set: ConfigSet;
  #onUpdate: ((update: ConfigUpdate) => void) | undefined;
  #timer: Timer | undefined;
  /** Of the last look, and of the state that was handed over. */
  #seen: string | undefined;
  #taken: string | undefined;
  /** Looks that have disagreed with what is served. */
  #waits = 0;
  #last: ConfigUpdate = { parts: [], problems: [], warnings: [] };

  constructor(options: FileSourceOptions) {
    this.#options = options;
    this.#set = new ConfigSet(options.mergesDomains);
  }

  start(onUpdate: (update: ConfigUpdate) => void): void {
    this.#onUpdate = onUpdate;
    void this.#look();
  }

  close(): void {
    this.#onUpdate = undefined;
    this.#timer?.cancel();
  }

  /** Never rejects. */
  async #look(): Promise<void> {
    const isFirst = this.#taken === undefined;
    try {
      const files = await listRuntimeFiles(this.#options.layout);
      const stamp = JSON.stringify(files);
      this.#waits = stamp === this.#taken ? 0 : this.#waits + 1;
      const isReady = isFirst || stamp === this.#seen || this.#waits > longestWait;
      if (this.#waits > 0 && isReady) await this.#take(files, stamp);
      this.#seen = stamp;
    } catch (error) {
      this.#reportUnreadable(error instanceof Error ? error.message : String(error));
    }
    if (this.#onUpdate === undefined) return;
    this.#timer = this.#options.clock.setTimer(this.#options.pollIntervalMs, () => void this.#look());
  }

  async #take(files: readonly RuntimeFile[], stamp: string): Promise<void> {
    const texts = await readRuntimeFiles(files);
    this.#taken = stamp;
    this.#waits = 0;
    this.#last = this.#set.update(texts);
    this.#onUpdate?.(this.#last);
  }

  /** The folder is not there: what is served stays, and the reason is told once. */
  #reportUnreadable(reason: string): void {
    if (this.#taken === reason) return;
    this.#taken = reason;
    this.#seen = undefined;
    const message = `cannot read the configuration folder ${this.#options.layout.directory}: ${reason}`;
    this.#onUpdate?.({ ...this.#last, problems: [{ message }] });
  }
}
