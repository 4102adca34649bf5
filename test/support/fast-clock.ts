/**
 * A faster clock for one process, by libfaketime (https://github.com/wolfcw/libfaketime), which
 * `scripts/install-test-programs.sh` installs with the program `faketime`.
 */
import { existsSync } from "node:fs";

/** Debian keeps it in a folder of the machine's architecture. */
const files = ["x86_64", "aarch64"].map((machine) => `/usr/lib/${machine}-linux-gnu/faketime/libfaketimeMT.so.1`);

/** The value for LD_PRELOAD; `undefined` where libfaketime is not installed. */
export const faketimeLibrary = files.find((file) => existsSync(file));

/**
 * The environment of a process whose clocks and timers run `speed` times as fast as those of the machine: a minute in
 * the process takes 60 / `speed` seconds. Throws where libfaketime is not installed.
 */
export function fastClock(speed: number): Readonly<Record<string, string>> {
  if (faketimeLibrary === undefined) throw new Error("libfaketime is missing: run scripts/install-test-programs.sh");
  return { LD_PRELOAD: faketimeLibrary, FAKETIME: `+0 x${speed}` };
}
