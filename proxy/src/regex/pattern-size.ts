/**
 * Computes the size of a regular expression from its text: an upper bound of the number of instructions that RE2
 * compiles it to, and of the work for that. Compiling first would be too late: `(x{1000}){1000}` has 15 characters.
 *
 * The scan is linear in the text and never throws. It understands the parts of RE2's syntax that affect the size. The
 * size of an invalid pattern has no meaning; RE2 rejects the pattern.
 */

/** The counts of an open group. */
interface Group {
  /** Instructions of all atoms but the last. */
  before: number;
  /** Instructions of the last atom, which a repetition multiplies. */
  last: number;
}

/** The units to parse a Unicode class such as `\pL`, which has hundreds of ranges, and the units of its instruction. */
const unicodeClass = { read: 32, instruction: 4 };

/** The number of characters in a class that cost as much as an instruction. */
const classCharsPerUnit = 32;

/** The number of code points in a range that cost as much as an instruction if the case of each is folded. */
const foldedPerUnit = 100;

/** The highest code point with case. */
const maxFold = 125_251;

/** The largest size. It exceeds any bound and is exact as a number. */
const saturated = 1_000_000_000;

export function patternSize(source: string): number {
  return new Scanner(source).size();
}

class Scanner {
  readonly #text: string;
  readonly #folds: boolean;
  readonly #outer: Group[] = [];
  #group: Group = { before: 0, last: 0 };
  #at = 0;
  /** The cost of compiling besides the instructions. */
  #extra: number;

  constructor(source: string) {
    this.#text = source;
    this.#folds = /\(\?[a-zA-Z-]*i/.test(source);
    this.#extra = source.length >> 3;
  }

  size(): number {
    while (this.#at < this.#text.length) this.#next();
    while (this.#outer.length > 0) this.#close();
    // RE2 adds an instruction that fails at the beginning and one that matches at the end.
    return Math.min(saturated, Math.ceil(sizeOf(this.#group) + this.#extra + 2));
  }

  #next(): void {
    const char = this.#text.charAt(this.#at++);
    switch (char) {
      case "(":
        this.#open();
        break;
      case ")":
        if (this.#outer.length > 0) this.#close();
        break;
      case "|":
        this.#atom(2);
        this.#atom(0);
        break;
      case "*":
      case "+":
      case "?":
        this.#group.last += 2;
        break;
      case "{":
        this.#repeat();
        break;
      case "[":
        this.#class();
        break;
      case "\\":
        this.#escape();
        break;
      default:
        this.#atom(1);
    }
  }

  #atom(size: number): void {
    this.#group.before = Math.min(saturated, this.#group.before + this.#group.last);
    this.#group.last = size;
  }

  #open(): void {
    if (this.#text.charAt(this.#at) === "?") {
      const [all = "?", end] = /^\?(?:P?<[^>]*>|[a-zA-Z-]*([:)]?))/.exec(this.#rest(300)) ?? [];
      this.#at += all.length;
      // Flags apply to the rest of the enclosing group.
      if (end === ")") return;
    }
    this.#outer.push(this.#group);
    this.#group = { before: 0, last: 0 };
  }

  #close(): void {
    const size = sizeOf(this.#group) + 2;
    this.#group = this.#outer.pop() ?? this.#group;
    this.#atom(size);
  }

  /** Scans `{n}`, `{n,}` or `{n,m}`; anything else is a literal brace. */
  #repeat(): void {
    const [all, least = "", comma, most = ""] = /^(\d{1,8})(,?)(\d{0,8})\}/.exec(this.#rest(20)) ?? [];
    if (all === undefined) {
      this.#atom(1);
      return;
    }
    this.#at += all.length;
    const min = Number(least);
    const max = comma === "" ? min : Number(most);
    const { last } = this.#group;
    // Each copy beyond the minimum is optional and adds an instruction, as does a loop.
    const size = Math.max(1, min) * last + Math.max(0, max - min) * (last + 1) + 2;
    this.#group.last = Math.min(saturated, size);
  }

  #escape(): void {
    const char = this.#text.charAt(this.#at++);
    if (char === "Q") {
      const end = this.#text.indexOf("\\E", this.#at);
      const to = end === -1 ? this.#text.length : end;
      for (let at = this.#at; at < to; at += 1) this.#atom(1);
      this.#at = end === -1 ? to : end + 2;
      return;
    }
    const isUnicodeClass = char === "p" || char === "P";
    this.#atom(isUnicodeClass ? unicodeClass.instruction : 1);
    if (isUnicodeClass) this.#extra += unicodeClass.read;
    if (isUnicodeClass || char === "x") this.#skipBraces();
  }

  #skipBraces(): void {
    if (this.#text.charAt(this.#at) !== "{") return;
    const end = this.#text.indexOf("}", this.#at);
    this.#at = end === -1 ? this.#text.length : end + 1;
  }

  /** Scans a class: one instruction, whose work grows with its length. */
  #class(): void {
    this.#atom(1);
    const start = this.#at;
    this.#skipClass();
    this.#group.last += (this.#at - start) / classCharsPerUnit;
  }

  #skipClass(): void {
    if (this.#text.charAt(this.#at) === "^") this.#at += 1;
    let isFirst = true;
    while (this.#at < this.#text.length) {
      if (this.#text.charAt(this.#at) === "]" && !isFirst) {
        this.#at += 1;
        return;
      }
      isFirst = false;
      if (this.#skipNamedClass()) continue;
      const low = this.#classChar();
      if (this.#text.charAt(this.#at) !== "-" || this.#text.charAt(this.#at + 1) === "]") continue;
      this.#at += 1;
      const high = this.#classChar();
      if (this.#folds) this.#extra += Math.max(0, Math.min(high, maxFold) - low) / foldedPerUnit;
    }
  }

  /** Skips a named class such as `[:alpha:]`. */
  #skipNamedClass(): boolean {
    if (!this.#text.startsWith("[:", this.#at)) return false;
    const end = this.#text.indexOf(":]", this.#at + 2);
    if (end === -1) return false;
    this.#at = end + 2;
    return true;
  }

  /** Scans one item of a class and returns its code point; 0 for an escaped class. */
  #classChar(): number {
    const code = this.#text.codePointAt(this.#at) ?? 0;
    this.#at += code > 0xffff ? 2 : 1;
    if (code !== 0x5c) return code;
    const char = this.#text.charAt(this.#at++);
    if (char === "x") {
      const [all = "", braced, plain] = /^(?:\{([0-9a-fA-F]{1,8})\}|([0-9a-fA-F]{2}))/.exec(this.#rest(12)) ?? [];
      this.#at += all.length;
      return Number.parseInt(braced ?? plain ?? "0", 16);
    }
    if (char === "p" || char === "P") {
      this.#extra += unicodeClass.read;
      this.#group.last += unicodeClass.instruction;
      this.#skipBraces();
      return 0;
    }
    const [octal] = /^[0-7]{1,3}/.exec(char + this.#rest(2)) ?? [];
    if (octal === undefined) return char.codePointAt(0) ?? 0;
    this.#at += octal.length - 1;
    return Number.parseInt(octal, 8);
  }

  #rest(length: number): string {
    return this.#text.slice(this.#at, this.#at + length);
  }
}

/** The size of a group. An empty group is an instruction without effect. */
function sizeOf({ before, last }: Group): number {
  return Math.max(1, before + last);
}
