/**
 * Counts the tokens of a prompt in bounded time. The merge of byte pairs takes time in the square of a word's length,
 * so words are cut. Long prompts are counted in samples.
 */
import { tokensOfText } from "../estimate.ts";
import type { PromptText } from "./prompt-text.ts";

/** Returns the number of tokens of a text that begins and ends at the bounds of words, or within a long word. */
export type CountWords = (text: string) => number;

/** Characters of a word or of a gap that are counted as one. More tokens result for longer ones, never fewer. */
export const maxRun = 64;
/** Characters of a prompt that are counted exactly. */
export const maxExact = 8_192;
/** The samples of a longer prompt, evenly spaced. */
const samples = 32;
const sampleLength = maxExact / samples;

/** Returns the tokens of a prompt; of a long one at least its bytes ÷ 4. */
export function countPrompt({ texts, tokens, mediaBytes }: PromptText, count: CountWords): number {
  const length = texts.reduce((sum, text) => sum + text.length, 0);
  const own = tokens + tokensOfText(mediaBytes);
  if (length <= maxExact) return own + texts.reduce((sum, text) => sum + countText(text, count), 0);
  const whole = texts.join("\n");
  let sampled = 0;
  for (let sample = 0; sample < samples; sample++) {
    const start = Math.floor((sample * (whole.length - sampleLength)) / (samples - 1));
    sampled += countText(whole.slice(start, start + sampleLength), count);
  }
  const byRatio = Math.ceil((sampled * whole.length) / maxExact);
  return own + Math.max(byRatio, tokensOfText(Buffer.byteLength(whole)));
}

/** Counts a text in slices that end before a run of blanks, or of other characters, becomes too long. */
function countText(text: string, count: CountWords): number {
  let tokens = 0;
  let start = 0;
  let run = 0;
  let isInGap = false;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    const isGap = isBlank(unit);
    if (isGap !== isInGap) run = 0;
    isInGap = isGap;
    // Not between the halves of a surrogate pair.
    if (run >= maxRun && (unit & 0xfc00) !== 0xdc00) {
      tokens += count(text.slice(start, at));
      start = at;
      run = 0;
    }
    run++;
  }
  return start < text.length ? tokens + count(text.slice(start)) : tokens;
}

function isBlank(unit: number): boolean {
  return unit <= 0x20 || unit === 0xa0 || unit === 0x3000 || (unit >= 0x2000 && unit <= 0x200a);
}
