/** The texts of files, of which those that have not changed are read once. */
import type { BigIntStats } from "node:fs";
import { readFile } from "node:fs/promises";
import type { Clock } from "@gatewayproxy/runtime/clock";

/**
 * Until this time after a change, a second one may leave the status of a file as it is: there are file systems that
 * round times to two seconds.
 */
const settledMs = 3_000;

interface KnownText {
  readonly text: string;
  /** Undefined if the file may change without another version. */
  readonly version: string | undefined;
}

/** Reads files of a folder in passes. A pass reads a file only if its status has changed since the last pass. */
export class FileTexts {
  readonly #clock: Clock;
  readonly #readFile: (path: string) => Promise<string>;
  #lastPass: ReadonlyMap<string, KnownText> = new Map();
  #pass = new Map<string, KnownText>();

  /** @param clock its wall time is compared with the times of files */
  constructor(clock: Clock, read = (path: string): Promise<string> => readFile(path, "utf8")) {
    this.#clock = clock;
    this.#readFile = read;
  }

  /**
   * Resolves with the text of a file. Rejects if it cannot be read.
   *
   * @param status of the file, with links followed
   */
  async text(path: string, status: BigIntStats): Promise<string> {
    const known = this.#lastPass.get(path);
    const version = versionOf(status);
    const isUnchanged = known !== undefined && known.version === version;
    const isSettled = this.#clock.nowMs() - lastChangeMs(status) > settledMs;
    const text = isUnchanged ? known.text : await this.#readFile(path);
    this.#pass.set(path, { text, version: isSettled ? version : undefined });
    return text;
  }

  /** Ends a pass. Texts of files that it did not name are freed. */
  endPass(): void {
    this.#lastPass = this.#pass;
    this.#pass = new Map();
  }
}

/** Returns a text that differs from that before every change of the file, and every other file at its path. */
function versionOf({ dev, ino, size, mtimeNs, ctimeNs }: BigIntStats): string {
  return `${dev} ${ino} ${size} ${mtimeNs} ${ctimeNs}`;
}

/** The time of the status cannot be set by a program, unlike that of the content. */
function lastChangeMs({ mtimeMs, ctimeMs }: BigIntStats): number {
  return Number(mtimeMs > ctimeMs ? mtimeMs : ctimeMs);
}
