// Breaks the layers on purpose: a folder that no table knows.
import type { Exchange } from "../pipeline/exchange.ts";

export type Extra = Exchange;
