/**
 * Takes the answer to a question that the client did not ask out of its stream (`ai-request.ts` asked it).
 *
 * OpenAI's API answers `include_usage` with one more event before `[DONE]`, whose `choices` are empty and whose `usage`
 * is set, and with `"usage":null` in every other event. Both are cut; every other byte passes as it came. A server
 * that reports usage beside choices does so of its own accord, and that stays.
 *
 * Whole lines pass at once. What arrives of an unfinished line waits for its end, as no reader of events could use it
 * before (WHATWG HTML §9.2.6: an event is dispatched at the empty line behind it); a line longer than `maxHeldBytes` is
 * no such event and passes as it comes.
 */
import { JsonMembers, type Member, memberPaths } from "./json-members.ts";

/** The most that is held back of an unfinished line; the event to find is about 300 bytes long. */
export const maxHeldBytes = 64 * 1024;

const lineFeed = 0x0a;
const comma = 0x2c;
const nothing = Buffer.alloc(0);
const dataField = Buffer.from("data:");
const usageName = '"usage"';
const eventPaths = memberPaths("usage", "choices");

/** The filter of one uncompressed stream. */
export class UsageEventFilter {
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
    const end = bytes.lastIndexOf(lineFeed) + 1;
    const lines = this.#filter(bytes.subarray(0, end));
    const rest = bytes.subarray(end);
    this.#isPassing = rest.length > maxHeldBytes;
    this.#held = this.#isPassing ? nothing : Buffer.from(rest);
    return this.#isPassing ? Buffer.concat([lines, rest]) : lines;
  }

  /** Returns what is left when the upstream has ended. */
  end(): Buffer {
    return this.#filter(this.#held);
  }

  /** Lets the rest of a long line go. */
  #pass(chunk: Buffer): Buffer {
    const end = chunk.indexOf(lineFeed) + 1;
    if (end === 0) return chunk;
    this.#isPassing = false;
    this.#startsEvent = false;
    return Buffer.concat([chunk.subarray(0, end), this.push(chunk.subarray(end))]);
  }

  /** Cuts what is to be cut from whole lines; returns them as they are if there is nothing. */
  #filter(lines: Buffer): Buffer {
    if (lines.length === 0) return lines;
    // Latin-1 keeps an index in the text one in the bytes.
    const text = lines.toString("latin1");
    const pieces: Buffer[] = [];
    let from = this.#cutsEmptyLine ? emptyLineLength(text, 0) : 0;
    this.#cutsEmptyLine = false;
    for (let at = text.indexOf(usageName, from); at !== -1; ) {
      const start = text.lastIndexOf("\n", at) + 1;
      const end = endOfLine(text, at);
      const cut = cutOf(lines.subarray(start, end));
      if (cut !== undefined) pieces.push(lines.subarray(from, start + cut.start));
      if (cut?.kind === "member") from = start + cut.end;
      if (cut?.kind === "event") from = this.#isStartOfEvent(text, start, from) ? this.#cutEmptyLine(text, end) : end;
      at = text.indexOf(usageName, end);
    }
    this.#startsEvent = this.#isStartOfEvent(text, text.length, from);
    if (from === 0) return lines;
    return Buffer.concat([...pieces, lines.subarray(from)]);
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

/** What to cut out of a line: a member, or the line, which is then a whole event or the data of one. */
interface Cut {
  readonly kind: "member" | "event";
  readonly start: number;
  readonly end: number;
}

function cutOf(line: Buffer): Cut | undefined {
  if (!line.subarray(0, dataField.length).equals(dataField)) return undefined;
  const members: Member[] = [];
  const reader = new JsonMembers(eventPaths, (member) => members.push(member));
  reader.push(line.subarray(dataField.length));
  const usage = members.find(({ path }) => path === "usage");
  if (usage === undefined || reader.end === undefined) return undefined;
  const value = textOf(usage);
  if (value === "null") return cutOfMember(line, usage);
  const choices = members.find(({ path }) => path === "choices");
  const isAnswer = value.startsWith("{") && choices !== undefined && /^\[\s*\]$/.test(textOf(choices));
  return isAnswer ? { kind: "event", start: 0, end: line.length } : undefined;
}

/** The member with one comma: that in front of it, or that behind it if it is the first. */
function cutOfMember(line: Buffer, member: Member): Cut {
  const before = dataField.length + member.before;
  const after = dataField.length + member.after;
  if (line[before] === comma) return { kind: "member", start: before, end: after };
  return { kind: "member", start: before + 1, end: line[after] === comma ? after + 1 : after };
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
