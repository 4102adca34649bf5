// Breaks the layers on purpose: a pure layer that reads a file.
import { readFileSync } from "node:fs";

export const parts: readonly unknown[] = [readFileSync];
