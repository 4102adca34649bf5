/** libfaketime, which gives a process a clock of its own; `scripts/install-test-programs.sh` installs it. */
import { existsSync } from "node:fs";

/** Debian keeps it in a folder of the machine's architecture. */
const files = ["x86_64", "aarch64"].map((machine) => `/usr/lib/${machine}-linux-gnu/faketime/libfaketimeMT.so.1`);

/** What LD_PRELOAD takes; `undefined` where it is not installed. */
export const faketimeLibrary = files.find((file) => existsSync(file));
