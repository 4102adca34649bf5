/**
 * Takes the answer to a question that the client did not ask out of its stream (`ai-request.ts` asked it).
 *
 * OpenAI's API answers `include_usage` with one more event before `[DONE]`, whose `choices` are empty and whose `usage`
 * is set, and with `"usage":null` in every other event. Both are cut; every other byte passes as it came. A server
 * that reports usage beside choices does so of its own accord, and that stays.
 *
 * Lines end with LF, CRLF or, if the first one does, with CR. Whole lines pass at once. What arrives of an unfinished line waits for its end, as no reader of events could use it
 * before (WHATWG HTML §9.2.6: an event is dispatched at the empty line behind it); a line longer than `maxHeldBytes` is
 * no such event and passes as it comes.
 */
import { JsonMembers, type Member, memberPaths } from "./json-members.ts";

/** The most that is held back of an unfinished line; the event to find is about 300 bytes long. */
export const maxHeldBytes = 16 * 1024;

const nothing = Buffer.alloc(0);
const dataField = "data:";
const usageName = '"usage"';
const nullMember = '"usage":null';
const eventPaths = memberPaths("usage", "choices");

const lineFeed = 0x0a;
const carriageReturn = 0x0d;

/** The last byte of a line's end. */
type LineEnd = typeof lineFeed | typeof carriageReturn;

/** The filter of one uncompressed stream. */
export class UsageEventFilter {
  /** Undefined until the first line ends. */
  #lineEnd: LineEnd | undefined;
  /** The unfinished line. */
  #held: Buffer = nothing;
  /** The unfinished line is too long to be held and passes. */
  #isPassing = false;
  /** The next line is the first of an event. */
  #startsEvent = true;
  /** The event before was cut; the empty line behind it goes too. */
  #cutsEmptyLine = false;

  /** Takes the upstream's next bytes and returns what may go to the client now, which may be empty. */
  push(chunk: Buffer): Buffer {
    if (this.#isPassing) return this.#pass(chunk);
    const bytes = this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk]);
    this.#lineEnd ??= firstLineEnd(bytes);
    const end = this.#lineEnd === undefined ? 0 : bytes.lastIndexOf(this.#lineEnd) + 1;
    if (end === bytes.length) {
      this.#held = nothing;
      return this.#filter(bytes);
    }
    return this.#filterAndHold(bytes.subarray(0, end), bytes.subarray(end));
  }

  /** Returns what is left when the upstream has ended. */
  end(): Buffer {
    return this.#filter(this.#held);
  }

  #filterAndHold(lines: Buffer, unfinished: Buffer): Buffer {
    const passed = this.#filter(lines);
    this.#isPassing = unfinished.length > maxHeldBytes;
    this.#held = this.#isPassing ? nothing : Buffer.from(unfinished);
    return this.#isPassing ? Buffer.concat([passed, unfinished]) : passed;
  }

  /** Lets the rest of a long line go. */
  #pass(chunk: Buffer): Buffer {
    this.#lineEnd ??= firstLineEnd(chunk);
    const end = this.#lineEnd === undefined ? 0 : chunk.indexOf(this.#lineEnd) + 1;
    if (end === 0) return chunk;
    this.#isPassing = false;
    this.#startsEvent = false;
    return Buffer.concat([chunk.subarray(0, end), this.push(chunk.subarray(end))]);
  }

  #filter(lines: Buffer): Buffer {
    return this.#lineEnd === carriageReturn ? swapped(this.#cut(swapped(lines))) : this.#cut(lines);
  }

  /** Cuts what is to be cut from whole lines that end with LF; returns them as they are if there is nothing. */
  #cut(lines: Buffer): Buffer {
    if (lines.length === 0) return lines;
    // Latin-1 keeps an index in the text one in the bytes.
    const text = lines.toString("latin1");
    let passed = "";
    let from = this.#cutsEmptyLine ? emptyLineLength(text, 0) : 0;
    this.#cutsEmptyLine = false;
    for (let at = text.indexOf(usageName, from); at !== -1; ) {
      const lineStart = text.lastIndexOf("\n", at) + 1;
      const isData = text.startsWith(dataField, lineStart);
      const cut = isData ? (commonCut(text, at) ?? cutOf(lines, text, lineStart, at)) : undefined;
      if (cut !== undefined) {
        passed += text.slice(from, cut.start);
        from = cut.isEvent && this.#isStartOfEvent(text, cut.start, from) ? this.#cutEmptyLine(text, cut.end) : cut.end;
      }
      at = text.indexOf(usageName, Math.max(from, endOfLine(text, at)));
    }
    this.#startsEvent = this.#isStartOfEvent(text, text.length, from);
    return from === 0 ? lines : Buffer.from(passed + text.slice(from), "latin1");
  }

  /** Returns where to go on behind an event's only line: behind the empty line, which may still be to come. */
  #cutEmptyLine(text: string, at: number): number {
    this.#cutsEmptyLine = at === text.length;
    return at + emptyLineLength(text, at);
  }

  /** @param from what is before has been cut, or belongs to lines that have gone */
  #isStartOfEvent(text: string, start: number, from: number): boolean {
    if (start === from) return from > 0 || this.#startsEvent;
    const last = text[start - 2] === "\r" ? start - 3 : start - 2;
    return last < 0 || text[last] === "\n";
  }
}

/** Undefined while no line has ended for sure: a CR that is the last byte may be the half of an end. */
function firstLineEnd(bytes: Buffer): LineEnd | undefined {
  const line = bytes.indexOf(lineFeed);
  const carriage = bytes.indexOf(carriageReturn);
  if (carriage === -1 || (line !== -1 && line <= carriage + 1)) return line === -1 ? undefined : lineFeed;
  return carriage + 1 === bytes.length ? undefined : carriageReturn;
}

/** With LF for CR and the other way round. */
function swapped(bytes: Buffer): Buffer {
  const other = Buffer.from(bytes);
  for (let at = 0; at < other.length; at++) {
    if (other[at] === lineFeed) other[at] = carriageReturn;
    else if (other[at] === carriageReturn) other[at] = lineFeed;
  }
  return other;
}

/** What to cut: a member with a comma, or a line that is the data of the answer. */
interface Cut {
  readonly isEvent: boolean;
  readonly start: number;
  readonly end: number;
}

/**
 * The member at `at` as OpenAI writes it in every event, `,"usage":null` in front of the line's only `}` from there on.
 * That this is the object's last brace proves it a member of the top level, so the line need not be read.
 */
function commonCut(text: string, at: number): Cut | undefined {
  if (!text.startsWith(nullMember, at) || text[at - 1] !== ",") return undefined;
  const end = endOfLine(text, at);
  // Within the line: a search that ran on would read the rest of the chunk for each line without a brace.
  const brace = text.slice(at, end).indexOf("}") + at;
  if (brace < at) return undefined;
  const isLast = text[brace + 1] === "\n" || (text[brace + 1] === "\r" && text[brace + 2] === "\n");
  return isLast ? { isEvent: false, start: at - 1, end: at + nullMember.length } : undefined;
}

/** What to cut of the line around `at`, by reading it. */
function cutOf(lines: Buffer, text: string, lineStart: number, at: number): Cut | undefined {
  const lineEnd = endOfLine(text, at);
  const dataStart = lineStart + dataField.length;
  const members: Member[] = [];
  const reader = new JsonMembers(eventPaths, (member) => members.push(member));
  reader.push(lines.subarray(dataStart, lineEnd));
  const usage = members.find(({ path }) => path === "usage");
  if (usage === undefined || reader.end === undefined) return undefined;
  if (textOf(usage) === "null") return cutOfMember(text, dataStart + usage.before, dataStart + usage.after);
  const choices = members.find(({ path }) => path === "choices");
  const isAnswer = textOf(usage).startsWith("{") && choices !== undefined && /^\[\s*\]$/.test(textOf(choices));
  return isAnswer ? { isEvent: true, start: lineStart, end: lineEnd } : undefined;
}

/** The member with one comma: that in front of it, or that behind it if it is the first. */
function cutOfMember(text: string, before: number, after: number): Cut {
  if (text[before] === ",") return { isEvent: false, start: before, end: after };
  return { isEvent: false, start: before + 1, end: text[after] === "," ? after + 1 : after };
}

function textOf(member: Member): string {
  return member.value?.toString().trim() ?? "";
}

/** Index behind the line's end. */
function endOfLine(text: string, from: number): number {
  const at = text.indexOf("\n", from);
  return at === -1 ? text.length : at + 1;
}

/** Length of the empty line at `at`, 0 if there is none. */
function emptyLineLength(text: string, at: number): number {
  if (text[at] === "\n") return 1;
  return text[at] === "\r" && text[at + 1] === "\n" ? 2 : 0;
}
