/**
 * Parses the JSON text of an object of the API server. Anyone may give an object maps with a hundred thousand members,
 * such as labels, which take V8 a tenth of a second to parse. A map keeps its first members, and what follows is left
 * out before.
 */

/** Members of a map that are parsed. No object that is used has as many. */
const maxMembers = 4_096;
/** A shorter text has not enough members to be slow. */
const minLength = 65_536;

/** Throws `SyntaxError` for a text that is not JSON. */
export function parseBounded(text: Buffer): unknown {
  return JSON.parse(text.length < minLength ? text.toString("utf8") : boundedText(text));
}

const [quote, backslash, comma] = [0x22, 0x5c, 0x2c];
const [openBrace, closeBrace, openBracket, closeBracket] = [0x7b, 0x7d, 0x5b, 0x5d];

/** Returns the text without the members of each map after the first `maxMembers`. */
function boundedText(text: Buffer): string {
  const kept: string[] = [];
  /** The members so far of each open map; of a list, a number that never reaches the bound. */
  const counts: number[] = [];
  let keptFrom = 0;
  /** The depth of the map of which members are left out; 0 while none are. */
  let leftOut = 0;
  for (let at = 0; at < text.length; at++) {
    const byte = text[at];
    if (byte === quote) {
      at = endOfString(text, at);
    } else if (byte === openBrace) {
      counts.push(0);
    } else if (byte === openBracket) {
      counts.push(Number.NEGATIVE_INFINITY);
    } else if (byte === closeBrace || byte === closeBracket) {
      if (leftOut === counts.length) {
        keptFrom = at;
        leftOut = 0;
      }
      counts.pop();
    } else if (byte === comma && leftOut === 0) {
      const depth = counts.length;
      const count = (counts[depth - 1] ?? 0) + 1;
      counts[depth - 1] = count;
      if (count < maxMembers) continue;
      kept.push(text.toString("utf8", keptFrom, at));
      leftOut = depth;
    }
  }
  if (leftOut === 0) kept.push(text.toString("utf8", keptFrom));
  return kept.join("");
}

/** Returns the position of the quote that ends the string, or the last one if none does. */
function endOfString(text: Buffer, start: number): number {
  let at = start + 1;
  for (; at < text.length; at++) {
    const byte = text[at];
    if (byte === backslash) at++;
    else if (byte === quote) return at;
  }
  return at;
}
