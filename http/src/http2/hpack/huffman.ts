/**
 * The Huffman code of HPACK (RFC 7541 §5.2 and Appendix B), for decoding only: sent texts are short and not compressed.
 * The code is canonical, so the lengths of its words define it. The decoder is a state machine that reads four bits at
 * a time; no word is shorter than five bits, so a step yields at most one symbol.
 */

/** The length in bits of each byte value's word, in runs [first value, lengths…]; 256 is the end-of-string word. */
const wordLengths: readonly (readonly number[])[] = [
  [0, 13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28],
  [16, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28],
  [32, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6],
  [48, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10],
  [64, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7],
  [80, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6],
  [96, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5],
  [112, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28],
  [128, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23],
  [144, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24],
  [160, 22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23],
  [176, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23],
  [192, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25],
  [208, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27],
  [224, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23],
  [240, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26],
  [256, 30],
];

const endOfString = 256;
const noSymbol = -1;
const noState = -1;

/**
 * The state machine. A state is an inner node of the code's tree; the root is 0. Entry `state * 16 + nibble` is the
 * state after four more bits and the symbol that they complete. `mayEnd` marks the states in which a string may end:
 * after less than eight bits of padding, all ones (the start of the end-of-string word).
 */
interface Machine {
  readonly next: Int16Array;
  readonly symbol: Int16Array;
  readonly mayEnd: Uint8Array;
}

/** Compiled at the first use, since many connections have no compressed texts. */
let machine: Machine | undefined;

/** Children of each inner node: [on bit 0, on bit 1]; a leaf is `~symbol`, so negative. */
function buildTree(): [number, number][] {
  const symbols = wordLengths
    .flatMap(([first = 0, ...lengths]) => lengths.map((length, index) => ({ symbol: first + index, length })))
    .sort((a, b) => a.length - b.length || a.symbol - b.symbol);
  const nodes: [number, number][] = [[0, 0]];
  let word = 0;
  let wordLength = 0;
  for (const { symbol, length } of symbols) {
    word *= 2 ** (length - wordLength);
    wordLength = length;
    insertWord(nodes, word, length, symbol);
    word += 1;
  }
  return nodes;
}

function insertWord(nodes: [number, number][], word: number, length: number, symbol: number): void {
  let node: [number, number] = nodes[0] ?? [0, 0];
  for (let bitIndex = length - 1; bitIndex > 0; bitIndex--) {
    const bit = ((word >>> bitIndex) & 1) as 0 | 1;
    if (node[bit] === 0) {
      node[bit] = nodes.push([0, 0]) - 1;
    }
    node = nodes[node[bit]] ?? node;
  }
  node[(word & 1) as 0 | 1] = ~symbol;
}

function compileMachine(nodes: readonly [number, number][]): Machine {
  const next = new Int16Array(nodes.length * 16).fill(noState);
  const symbol = new Int16Array(nodes.length * 16).fill(noSymbol);
  const mayEnd = new Uint8Array(nodes.length);
  for (let state = 0; state < nodes.length; state++) {
    for (let nibble = 0; nibble < 16; nibble++) {
      const step = readNibble(nodes, state, nibble);
      next[state * 16 + nibble] = step.next;
      symbol[state * 16 + nibble] = step.symbol;
    }
  }
  let padded = 0;
  for (let bits = 0; bits < 8; bits++) {
    mayEnd[padded] = 1;
    padded = nodes[padded]?.[1] ?? 0;
  }
  return { next, symbol, mayEnd };
}

function readNibble(
  nodes: readonly [number, number][],
  state: number,
  nibble: number,
): { next: number; symbol: number } {
  let node = state;
  let symbol = noSymbol;
  for (let bitIndex = 3; bitIndex >= 0; bitIndex--) {
    const child = nodes[node]?.[((nibble >> bitIndex) & 1) as 0 | 1] ?? 0;
    if (child === ~endOfString) {
      return { next: noState, symbol: noSymbol };
    }
    if (child < 0) {
      symbol = ~child;
    }
    node = child < 0 ? 0 : child;
  }
  return { next: node, symbol };
}

/**
 * Decodes `source[start, end)` into the start of `target`. Returns the number of bytes written, or -1 if the code is
 * invalid (an end-of-string word, or padding that is not the start of one) or the target is full.
 */
export function decodeHuffman(source: Buffer, start: number, end: number, target: Buffer): number {
  machine ??= compileMachine(buildTree());
  const { next, symbol, mayEnd } = machine;
  let state = 0;
  let written = 0;
  for (let index = start; index < end; index++) {
    const byte = source[index] ?? 0;
    for (let shift = 4; shift >= 0; shift -= 4) {
      const step = state * 16 + ((byte >> shift) & 0xf);
      const decoded = symbol[step] ?? noSymbol;
      if (decoded !== noSymbol) {
        if (written === target.length) {
          return -1;
        }
        target[written++] = decoded;
      }
      state = next[step] ?? noState;
      if (state === noState) {
        return -1;
      }
    }
  }
  return mayEnd[state] === 1 ? written : -1;
}
