/**
 * The acceptance cases as a table: the call, the settings, and the expected response. Every store and every transport
 * is tested with the same rows. Cases that a call cannot show (files, metrics, keys in Redis) have tests of their own,
 * which `casesTestedElsewhere` lists.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { ConfigText } from "../../config/config-set.ts";
import type { Case } from "./case.ts";
import { countingCases } from "./cases/counting.ts";
import { headerCases } from "./cases/headers.ts";
import { matchingCases } from "./cases/matching.ts";
import { modeCases } from "./cases/modes.ts";

/** Every case that a call can show, in order. */
export const cases: readonly Case[] = [...matchingCases, ...countingCases, ...modeCases, ...headerCases];

const configFolder = join(import.meta.dirname, "config");

/** Returns the configuration of the cases. */
export function caseConfig(): readonly ConfigText[] {
  return readdirSync(configFolder).map((key) => {
    const file = join(configFolder, key);
    return { key, file, text: readFileSync(file, "utf8") };
  });
}
