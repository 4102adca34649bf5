/**
 * The file of the access log, in the main thread: one writer for the lines of all workers, so that no line splits
 * another. It is opened again when a program that rotates logs has moved it.
 */
import { type FileHandle, open } from "node:fs/promises";
import type { Clock } from "@gatewayproxy/runtime/clock";
import { LineLimit } from "@gatewayproxy/runtime/line-limit";
import type { Logger } from "@gatewayproxy/runtime/log";
import type { Result } from "@gatewayproxy/runtime/problem";
import { errorMessage } from "@gatewayproxy/runtime/thrown-value";

/** Readable by the owner and the group, as logs in /var/log are: lines have addresses of clients. */
const fileMode = 0o640;

/** The setting, for messages. */
const setting = "--access-log-file";

/** An open file that lines are appended to. */
export class AccessLogFile {
  readonly #path: string;
  readonly #log: Logger;
  readonly #problems: LineLimit;
  #file: FileHandle;
  /** Whether the last write ended within a line. */
  #isTorn = false;
  /** Resolves when all earlier operations have ended. */
  #last: Promise<unknown> = Promise.resolve();

  private constructor(path: string, file: FileHandle, log: Logger, clock: Clock) {
    this.#path = path;
    this.#file = file;
    this.#log = log;
    this.#problems = new LineLimit(clock, 1);
  }

  /** Opens the file, and creates it if it does not exist. */
  static async open(path: string, log: Logger, clock: Clock): Promise<Result<AccessLogFile>> {
    try {
      return { ok: true, value: new AccessLogFile(path, await open(path, "a", fileMode), log, clock) };
    } catch (error) {
      const message = `${JSON.stringify(path)} cannot be opened for writing: ${errorMessage(error)}`;
      return { ok: false, problems: [{ path: setting, message }] };
    }
  }

  /** Appends whole lines, after all earlier ones. Resolves with the number of lines that were lost; never rejects. */
  append(lines: string): Promise<number> {
    return this.#next(() => this.#append(lines));
  }

  /** Opens the path again, after all earlier lines. If it cannot be opened, the open file stays in use. */
  reopen(): Promise<void> {
    return this.#next(async () => {
      try {
        const file = await open(this.#path, "a", fileMode);
        await this.#file.close().catch(() => undefined);
        this.#file = file;
        this.#isTorn = false;
        this.#log.info({ file: this.#path }, "access log file opened again");
      } catch (error) {
        const fields = { file: this.#path, error: errorMessage(error) };
        this.#log.warn(fields, "the access log file cannot be opened again; the previous one stays in use");
      }
    });
  }

  /** Closes the file after all earlier lines. */
  close(): Promise<void> {
    return this.#next(() => this.#file.close().catch(() => undefined));
  }

  #next<Value>(operation: () => Promise<Value>): Promise<Value> {
    const result = this.#last.then(operation);
    this.#last = result;
    return result;
  }

  async #append(lines: string): Promise<number> {
    const bytes = Buffer.from(this.#isTorn ? `\n${lines}` : lines);
    let written = 0;
    try {
      while (written < bytes.length) written += (await this.#file.write(bytes, written)).bytesWritten;
    } catch (error) {
      this.#problems.log((omitted) => {
        const fields = { file: this.#path, error: errorMessage(error), omitted };
        this.#log.warn(fields, "lines of the access log cannot be written");
      });
    }
    if (written > 0) this.#isTorn = bytes[written - 1] !== newline;
    return countLines(bytes.subarray(written));
  }
}

const newline = 0x0a;

function countLines(bytes: Buffer): number {
  let lines = 0;
  for (const byte of bytes) if (byte === newline) lines++;
  return lines;
}
