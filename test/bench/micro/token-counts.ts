/**
 * The time to count the tokens of a prompt, by its kind, and the memory of the tables.
 *
 * usage: node --expose-gc test/bench/micro/token-counts.ts
 *   prints one line for each text and size: the tokens, the bytes ÷ 4, and the median and the longest time
 */
import { loadEncoding, tokensOf } from "../../../proxy/src/llm/tokens/serve-tokens.ts";

const runs = 15;
const sizes = [1_000, 8_000, 60_000];
const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/";

let seed = 1;
/** Returns a number from 0 to below `bound`, the same ones in each run of the program. */
function next(bound: number): number {
  seed = (seed * 48_271) % 2_147_483_647;
  return seed % bound;
}

const english = "The gateway decides each request by its limits, and charges what the response has used afterwards. ";
const texts: Readonly<Record<string, () => string>> = {
  English: () => english,
  base64: () => letters.charAt(next(letters.length)),
  "random words": () => `${next(1e9).toString(36)} `,
  "random Chinese": () => String.fromCodePoint(0x4e00 + next(20_000)),
  "one letter": () => "a",
  blanks: () => " ",
};

function memoryMib(): number {
  globalThis.gc?.();
  return Math.round(process.memoryUsage().heapUsed / 2 ** 20);
}

const before = memoryMib();
const startMs = performance.now();
const count = await loadEncoding("o200k_base");
count("x");
console.log(`o200k_base: ${Math.round(performance.now() - startMs)} ms to load, ${memoryMib() - before} MiB`);
await loadEncoding("cl100k_base");
console.log(`both encodings: ${memoryMib() - before} MiB`);

for (const [name, make] of Object.entries(texts)) {
  for (const size of sizes) {
    const timesMs: number[] = [];
    let tokens = 0;
    let bytes = 0;
    for (let run = 0; run < runs; run++) {
      // Other words each time, since the library keeps those that it has seen.
      let input = "";
      while (input.length < size) input += make();
      const body = Buffer.from(JSON.stringify({ input: input.slice(0, size) }));
      bytes = body.length;
      const fromMs = performance.now();
      tokens = tokensOf(body, count) ?? 0;
      timesMs.push(performance.now() - fromMs);
    }
    timesMs.sort((a, b) => a - b);
    const [median = 0, longest = 0] = [timesMs[runs >> 1], timesMs.at(-1)];
    const times = `${median.toFixed(1)} ms, at most ${longest.toFixed(1)} ms`;
    console.log(`${name}, ${size} characters: ${tokens} tokens, bytes ÷ 4 ${Math.ceil(bytes / 4)}, ${times}`);
  }
}
