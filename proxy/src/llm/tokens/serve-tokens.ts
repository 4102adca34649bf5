/** Serves the counters of workers, in the thread that has the tables of the encodings. */
import { type CountWords, countPrompt } from "./count-tokens.ts";
import type { Encoding } from "./encoding.ts";
import { promptTextOf } from "./prompt-text.ts";
import type { FromTokenThread, TokenPort, ToTokenThread } from "./token-counter.ts";

/** Words whose tokens are kept, of at most 129 characters each. */
const cachedWords = 20_000;

const counters = new Map<Encoding, CountWords>();

/** Loads the table of an encoding: 16 MiB for o200k_base. */
export async function loadEncoding(encoding: Encoding): Promise<CountWords> {
  const { countTokens, setMergeCacheSize } =
    encoding === "o200k_base"
      ? await import("gpt-tokenizer/encoding/o200k_base")
      : await import("gpt-tokenizer/encoding/cl100k_base");
  setMergeCacheSize(cachedWords);
  // A client's text may contain the names of special tokens, which are text in it.
  const asText = { disallowedSpecial: new Set<string>() };
  const count: CountWords = (text) => countTokens(text, asText);
  counters.set(encoding, count);
  return count;
}

/** Serves one worker until its port closes. */
export function serveTokens(port: TokenPort<FromTokenThread, ToTokenThread>): void {
  const send = (message: FromTokenThread): void => port.postMessage(message, []);
  port.on("message", (message) => {
    if (message.kind === "load") {
      const { encoding } = message;
      void loadEncoding(encoding).then(() => send({ kind: "loaded", encoding }));
      return;
    }
    const { id, encoding, body } = message;
    const count = counters.get(encoding);
    send({ kind: "counted", id, tokens: count && tokensOf(body, count) });
  });
}

/**
 * Returns undefined for a body that is no JSON object, or that cannot be counted, such as one that is nested too deep
 * for a JSON text.
 */
export function tokensOf(body: Uint8Array, count: CountWords): number | undefined {
  try {
    const prompt = promptTextOf(JSON.parse(Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString()));
    return prompt && countPrompt(prompt, count);
  } catch {
    return undefined;
  }
}
