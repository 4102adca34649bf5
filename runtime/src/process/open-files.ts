/** The limit of open files of this process: each socket is one. */
import { readFileSync } from "node:fs";

/**
 * Returns the limit, to which Node has raised its soft limit at its start; undefined if the system has none or does not
 * report it.
 */
export function openFileLimit(): number | undefined {
  try {
    const text = readFileSync("/proc/self/limits", "utf8");
    const line = text.split("\n").find((each) => each.startsWith(linePrefix)) ?? "";
    const limit = Number(line.slice(linePrefix.length).trim().split(" ")[0]);
    return Number.isSafeInteger(limit) && limit > 0 ? limit : undefined;
  } catch {
    return undefined;
  }
}

/** Returns a number of sockets within a part of the limit, at least 1. @param openFiles undefined for no limit. */
export function withinOpenFiles(configured: number, part: number, openFiles = openFileLimit()): number {
  return openFiles === undefined ? configured : Math.min(configured, Math.max(1, Math.floor(openFiles * part)));
}

const linePrefix = "Max open files";
