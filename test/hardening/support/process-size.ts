/** The memory and the open files of a process, as Linux reports them. */
import { readdirSync, readFileSync } from "node:fs";

/** Returns the resident set in bytes. */
export function residentBytes(pid: number): number {
  const [, kibibytes] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8")) ?? [];
  return Number(kibibytes) * 1024;
}

/** Returns the number of open files, sockets among them. */
export function openFiles(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).length;
}
