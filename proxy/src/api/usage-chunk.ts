/** `usageChunk` of a ProxyPolicy and of a Backend. */
import * as z from "zod";

/** Schema of the field. */
export const usageChunk = z.enum(["Merge", "Pass", "Hide"]);

/** The common part of its descriptions. */
export const usageChunkMeaning =
  "How the usage of a streamed completion reaches a client that did not request it. The gateway always requests it from the provider, since the OpenAI API reports usage of streams only on request. Merge adds `usage` to the last chunk that has a choice. Pass forwards the additional chunk of the provider, with `usage` and without choices. Hide removes it. A client that requests the usage gets the stream as the provider sends it.";
