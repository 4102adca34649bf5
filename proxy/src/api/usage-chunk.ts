/** `usageChunk` of a ProxyPolicy and of a Backend. */
import * as z from "zod";

export const usageChunk = z.enum(["Merge", "Pass", "Hide"]);

export const usageChunkMeaning =
  "What a client sees of the usage of a streamed completion when it has not asked for it; the gateway asks, since OpenAI's API reports it only then. Merge: the last chunk that has a choice carries `usage`. Pass: one more chunk, with `usage` and without choices, as the provider sends it. Hide: nothing. A client that asks gets what the provider sends.";
