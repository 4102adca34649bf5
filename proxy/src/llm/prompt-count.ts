/** Counts the prompts of one request to completions: `prompt` may be a list of texts, or of lists of token ids. */

/** The maximum number of texts and lists that are read. The rest counts as the shortest prompts that it can be. */
const maxReads = 100_000;

const quote = 0x22;
const comma = 0x2c;
const openBracket = 0x5b;
const closeBracket = 0x5d;
const backslash = 0x5c;

/** Returns the number of prompts in a value of valid JSON, at least 1. */
export function countPrompts(body: Buffer, start: number, end: number): number {
  if (body[start] !== openBracket) return 1;
  let at = skipBlanks(body, start + 1);
  let count = 0;
  for (let reads = 0; at < end && body[at] !== closeBracket; reads++) {
    if (reads === maxReads) return count + Math.ceil((end - at) / minPromptBytes);
    // The list has the token ids of one prompt.
    if (body[at] !== quote && body[at] !== openBracket) return 1;
    const close = body.indexOf(body[at] === quote ? quote : closeBracket, at + 1);
    if (close === -1) break;
    if (body[at] === quote && isEscaped(body, close, at + 1)) {
      at = close;
      continue;
    }
    count++;
    at = skipBlanks(body, close + 1);
    if (body[at] === comma) at = skipBlanks(body, at + 1);
  }
  return Math.max(1, count);
}

/** An empty prompt and its comma: `"",`. */
const minPromptBytes = 3;

function skipBlanks(body: Buffer, from: number): number {
  let at = from;
  while ((body[at] ?? quote) <= 0x20) at++;
  return at;
}

/** Whether an odd number of backslashes, from `start` on, precedes `at`. */
function isEscaped(body: Buffer, at: number, start: number): boolean {
  let first = at;
  while (first > start && body[first - 1] === backslash) first--;
  return (at - first) % 2 === 1;
}
