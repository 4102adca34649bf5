/**
 * Keeps the counters of long windows in a directory (`--state-dir`), so that they outlive the process. Changed counters
 * are appended to a file twice a second, so a process that is killed loses less than a second of charges. When the file
 * has outgrown its counters, a new one takes its place.
 *
 * Nothing here delays requests. While the directory cannot be written, the proxy serves as without one, and tries
 * again.
 */
import { existsSync } from "node:fs";
import { access, constants, copyFile, link, mkdir, rename, rm, unlink } from "node:fs/promises";
import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { Backoff } from "@gatewayproxy/runtime/backoff";
import type { BlockFile } from "@gatewayproxy/runtime/block-file";
import { type Moment, momentOf } from "@gatewayproxy/runtime/boot-time";
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import { createSeed } from "@gatewayproxy/runtime/counter-memory";
import { type DirectoryLock, lockDirectory } from "@gatewayproxy/runtime/directory-lock";
import type { Logger } from "@gatewayproxy/runtime/log";
import type { Result } from "@gatewayproxy/runtime/problem";
import { errorMessage } from "@gatewayproxy/runtime/thrown-value";
import { SavedSlots } from "../policy/ratelimit/saved-slots.ts";
import { type CounterFile, counterBlock, createCounterFile, readCounterFile } from "./counter-file.ts";

/** The directory, and the receivers of events. */
export interface SavedCountersOptions {
  /** Created if it does not exist. One process uses it at a time. */
  readonly directory: string;
  /** Relates saved times to the present, and schedules saves. */
  readonly clock: Clock;
  /** As `readBoot` returns it. */
  readonly boot: string;
  /** From 0 to 1, for jitter. */
  readonly random: () => number;
  /** Receives what was found in the directory, and the first of several failures in a row. */
  readonly log: Logger;
  /**
   * Called when the file has all that was counted up to a time, in milliseconds since 1970, with its size in bytes.
   */
  readonly onSaved: (untilMs: number, bytes: number) => void;
  /** Called when counters could not be written. */
  readonly onFailure: () => void;
}

/** What became of the saves so far. */
export interface SaveState {
  readonly directory: string;
  /** The file has all that was counted up to this time, in milliseconds since 1970; undefined before the first save. */
  readonly untilMs: number | undefined;
  /** The size of the file. */
  readonly bytes: number;
  readonly isFailing: boolean;
  /** Failed attempts. */
  readonly failures: number;
  readonly lastError: { readonly message: string; readonly atMs: number } | undefined;
}

/** Time between two saves: with the duration of a save less than a second. */
const periodMs = 500;

/**
 * Time after a save at which counters are saved that another thread had locked, so that they do not wait for a period.
 */
const lockedRetryMs = 50;

/** A file may be this many times as large as it was when it was new, and at least `minGrownBytes`. */
const maxGrowth = 3;
const minGrownBytes = 8 * 1024 * 1024;

/** The counters of a directory, which is locked until `close`. */
export class SavedCounters {
  /** The secret of the counters' fingerprints, for `createCounters`. */
  readonly seed: Uint8Array;
  readonly #options: SavedCountersOptions;
  readonly #lock: DirectoryLock;
  readonly #path: string;
  readonly #backoff: Backoff;
  readonly #found: CounterFile | undefined;
  #slots: SavedSlots | undefined;
  /** The file to append to; undefined if a new one must be written. */
  #file: BlockFile | undefined;
  /** The file that takes its place when it has all counters. */
  #next: BlockFile | undefined;
  /** The size of the file when it was new. */
  #newBytes = 0;
  #timer: Timer | undefined;
  #soon: Timer | undefined;
  /** No new file is begun before. */
  #retryAtMs = -Infinity;
  #isFailing = false;
  #savedUntilMs: number | undefined;
  #failures = 0;
  #lastError: SaveState["lastError"];
  #isSaving = false;
  #lastSave: Promise<void> = Promise.resolve();
  #rewriting: Promise<void> | undefined;
  #lastSync: Promise<void> | undefined;

  private constructor(options: SavedCountersOptions, lock: DirectoryLock, found: CounterFile | undefined) {
    this.#options = options;
    this.#lock = lock;
    this.#path = pathIn(options.directory);
    this.#backoff = new Backoff({ firstMs: 1_000, random: options.random });
    this.#found = found;
    this.seed = found?.seed ?? createSeed();
  }

  /**
   * Locks the directory and reads its file. A file that is not of this program, or not whole, is put aside beside it,
   * as far as it is not valid. Fails if another process uses the directory, or if it cannot be used.
   */
  static async open(options: SavedCountersOptions): Promise<Result<SavedCounters>> {
    const { directory } = options;
    try {
      await mkdir(directory, { recursive: true, mode: 0o700 });
      await access(directory, constants.R_OK | constants.W_OK | constants.X_OK);
      const lock = await lockDirectory(directory);
      if (lock === undefined) return failed(`another process uses ${JSON.stringify(directory)}; each needs its own`);
      try {
        return { ok: true, value: new SavedCounters(options, lock, await readFound(options)) };
      } catch (error) {
        lock.release();
        throw error;
      }
    } catch (error) {
      return failed(`cannot keep counters in ${JSON.stringify(directory)}: ${errorMessage(error)}`);
    }
  }

  /**
   * Puts the counters of the file into memory that no other thread uses yet, and saves them from now on.
   *
   * @param memory Made by `createCounters` with `seed`.
   * @param owner As for `CounterTable`.
   */
  async start(memory: SharedArrayBuffer, owner: number): Promise<void> {
    const { clock, log } = this.#options;
    this.#slots = new SavedSlots(memory, owner);
    const startMs = clock.monotonicMs();
    if (this.#found !== undefined) {
      const { restored, leftOut } = this.#found.restore(this.#slots, this.#now());
      const durationMs = Math.round(clock.monotonicMs() - startMs);
      log.info({ counters: restored, ...(leftOut > 0 && { leftOut }), durationMs }, "saved counters restored");
      await this.#continue(this.#found);
    }
    if (this.#file === undefined) await this.#startRewrite();
    this.#timer = clock.every(periodMs, () => void this.save());
  }

  /** Appends to the file that was found, if all of it is valid now. */
  async #continue({ file, end }: CounterFile): Promise<void> {
    try {
      if (end === "damaged") {
        await file.close();
        return;
      }
      if (end === "torn") await file.removeExcess();
      this.#newBytes = file.bytes;
      this.#file = file;
    } catch (error) {
      this.#failed(error);
    }
  }

  /** What became of the saves so far. */
  get state(): SaveState {
    return {
      ...{ directory: this.#options.directory, untilMs: this.#savedUntilMs, bytes: this.#file?.bytes ?? 0 },
      ...{ isFailing: this.#isFailing, failures: this.#failures, lastError: this.#lastError },
    };
  }

  /** Saves the counters that have changed. Resolves when they are in the file, or could not be written. */
  save(): Promise<void> {
    if (!this.#isSaving) {
      this.#isSaving = true;
      this.#lastSave = this.#save().finally(() => {
        this.#isSaving = false;
      });
    }
    return this.#lastSave;
  }

  /** Saves everything, and ends the use of the directory. The threads that count must have ended, and hold no lock. */
  async close(): Promise<void> {
    this.#timer?.cancel();
    // Without a start, there is nothing that the file does not have.
    if (this.#slots === undefined) await this.#found?.file.close();
    else await this.#saveLast();
    this.#lock.release();
  }

  async #saveLast(): Promise<void> {
    await this.#lastSave;
    this.#retryAtMs = -Infinity;
    await this.save();
    this.#soon?.cancel();
    await this.#rewriting;
    await this.#sync();
    await this.#file?.close();
  }

  async #save(): Promise<void> {
    if (this.#file !== undefined) await this.#saveChanged();
    else await this.#startRewrite();
  }

  async #saveChanged(): Promise<void> {
    const startMs = this.#options.clock.nowMs();
    const hasAll = await this.#appendChanged();
    const bytes = this.#file?.bytes;
    // A failure has ended the use of the file.
    if (bytes === undefined) return;
    if (hasAll) this.#setSaved(startMs, bytes);
    else this.#saveSoon();
    this.#startSync();
    if (bytes > Math.max(minGrownBytes, this.#newBytes * maxGrowth)) void this.#startRewrite();
  }

  /** Returns whether all that have changed are in the file, if there still is one. */
  async #appendChanged(): Promise<boolean> {
    if (this.#slots === undefined) return true;
    const changed = this.#slots.changed();
    for (;;) {
      const { done, value } = changed.next();
      if (done === true) return value;
      await this.#append(counterBlock(this.#now(), value));
    }
  }

  /** Appends to the file, and to the one that is to take its place. Never rejects. */
  async #append(block: Uint8Array): Promise<void> {
    const files = [this.#file, this.#next].filter((file) => file !== undefined);
    const appended = await Promise.allSettled(files.map((file) => file.append(block)));
    for (const [at, result] of appended.entries()) {
      // The other file cannot take its place without the block.
      if (result.status === "rejected" && files[at] === this.#file) await this.#abandonFile(result.reason);
    }
  }

  /** A new file with all counters is written instead, when that is possible again. */
  async #abandonFile(error: unknown): Promise<void> {
    const file = this.#file;
    this.#file = undefined;
    this.#failed(error);
    await file?.close().catch(() => undefined);
  }

  /** One at a time, and not too soon after a failure. */
  async #startRewrite(): Promise<void> {
    if (this.#options.clock.monotonicMs() < this.#retryAtMs) return;
    this.#rewriting ??= this.#rewrite().finally(() => {
      this.#rewriting = undefined;
    });
    await this.#rewriting;
  }

  /** Writes all counters into a new file, which then takes the place of the other. Never rejects. */
  async #rewrite(): Promise<void> {
    const { log, clock } = this.#options;
    const path = newPath(this.#path);
    const startMs = clock.nowMs();
    try {
      const next = await createCounterFile(path, this.seed);
      this.#next = next;
      for (const records of this.#slots?.all() ?? []) {
        if (records === undefined) await nextTurn();
        else await next.append(counterBlock(this.#now(), records));
      }
      await next.sync();
      next.moveTo(this.#path);
      const previous = this.#file;
      this.#file = next;
      this.#next = undefined;
      this.#newBytes = next.bytes;
      log.debug({ bytes: next.bytes }, "counters written to a new file");
      this.#succeeded(startMs);
      await previous?.close();
    } catch (error) {
      this.#failed(error);
      await this.#next?.close().catch(() => undefined);
      this.#next = undefined;
      await unlink(path).catch(() => undefined);
    }
  }

  /** One at a time: a slow disk must not delay the next save, which survives the end of the process without it. */
  #startSync(): void {
    this.#lastSync ??= this.#sync().finally(() => {
      this.#lastSync = undefined;
    });
  }

  async #sync(): Promise<void> {
    const file = this.#file;
    try {
      await file?.sync();
    } catch (error) {
      // A new file has taken the place of one that is closed.
      if (file === this.#file) await this.#abandonFile(error);
    }
  }

  #succeeded(startMs: number): void {
    const { log } = this.#options;
    if (this.#isFailing) log.info({ directory: this.#options.directory }, "counters are saved again");
    this.#isFailing = false;
    this.#backoff.reset();
    this.#setSaved(startMs, this.#newBytes);
  }

  #saveSoon(): void {
    this.#soon?.cancel();
    this.#soon = this.#options.clock.setTimer(lockedRetryMs, () => void this.save());
  }

  #setSaved(untilMs: number, bytes: number): void {
    this.#savedUntilMs = untilMs;
    this.#options.onSaved(untilMs, bytes);
  }

  #failed(error: unknown): void {
    const { log, clock, directory, onFailure } = this.#options;
    this.#retryAtMs = clock.monotonicMs() + this.#backoff.next();
    this.#failures++;
    this.#lastError = { message: errorMessage(error), atMs: clock.nowMs() };
    onFailure();
    if (!this.#isFailing) log.warn({ directory, err: error }, "cannot save counters; trying again");
    this.#isFailing = true;
  }

  #now(): Moment {
    return momentOf(this.#options.boot, this.#options.clock);
  }
}

function pathIn(directory: string): string {
  return join(directory, "counters");
}

function newPath(path: string): string {
  return `${path}.new`;
}

/** Reads the file of a directory, and puts aside what is not valid. */
async function readFound({ directory, clock, log }: SavedCountersOptions): Promise<CounterFile | undefined> {
  const path = pathIn(directory);
  await rm(newPath(path), { force: true });
  if (!existsSync(path)) return undefined;
  const found = await readCounterFile(path);
  const aside = `${path}.aside-${new Date(clock.nowMs()).toISOString().replaceAll(":", "")}`;
  if (found === undefined) {
    await rename(path, aside);
    log.error(
      { file: path, aside },
      "the file has no counters of this version; it is put aside, and all start from zero",
    );
    return undefined;
  }
  const { end, excessBytes, file } = found;
  if (end === "damaged") {
    // The file stays until another has its valid part.
    await link(path, aside).catch(() => copyFile(path, aside));
    log.error(
      { file: path, aside, validBytes: file.bytes, excessBytes },
      "a part of the saved counters is damaged; the file is put aside, and the part before is used",
    );
  }
  if (end === "torn") {
    log.info({ file: path, excessBytes }, "the last save was not finished; what it has written is left out");
  }
  return found;
}

function failed(message: string): Result<never> {
  return { ok: false, problems: [{ path: "--state-dir", message }] };
}
