// Breaks the layers on purpose: the shared workspace reaches into one that uses it.
import { parts } from "../../proxy/src/upstream/pool.ts";

export const clock = parts;
