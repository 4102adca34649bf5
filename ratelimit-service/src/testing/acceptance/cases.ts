/**
 * The acceptance cases as a table: what is asked, in which settings, and what must come back. Every store and every door
 * is held against the same rows. Cases that no call can show (files, metrics, keys in Redis) are tests of their own, and
 * `elsewhere` says where each of them is.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { ConfigText } from "../../config/config-set.ts";
import type { Case } from "./case.ts";
import { countingCases } from "./cases/counting.ts";
import { headerCases } from "./cases/headers.ts";
import { matchingCases } from "./cases/matching.ts";
import { modeCases } from "./cases/modes.ts";

/** Every case that a call can show, in the order of the list. */
export const cases: readonly Case[] = [...matchingCases, ...countingCases, ...modeCases, ...headerCases];

const configFolder = join(import.meta.dirname, "config");

/** The configuration that the cases ask about. */
export function caseConfig(): readonly ConfigText[] {
  return readdirSync(configFolder).map((key) => {
    const file = join(configFolder, key);
    return { key, file, text: readFileSync(file, "utf8") };
  });
}
