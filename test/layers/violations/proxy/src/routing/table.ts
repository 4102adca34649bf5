// Breaks the layers on purpose: a pure layer that reads a file. The import of re2js is legal.
import { readFileSync } from "node:fs";
import { RE2JS } from "re2js";

export const parts: readonly unknown[] = [readFileSync, RE2JS];
