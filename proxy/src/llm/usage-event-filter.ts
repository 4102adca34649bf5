/**
 * Edits a stream of chat or text completions whose usage the gateway asked for and the client did not (`ai-request.ts`).
 *
 * OpenAI's API answers `stream_options.include_usage` with one more event before `[DONE]`, whose `choices` are empty and
 * whose `usage` is set, and with `"usage":null` in every other event. `"usage":null` is always cut. The usage event:
 *
 * - `Hide`: is cut.
 * - `Merge`: is cut, and its `usage` becomes the last member of the event before it. Only an event with a `finish_reason`
 *   waits for the next one, so that no other is late. Where no such event waits, the usage event gets one choice without
 *   content, so that the client still gets the usage and no event without choices.
 *
 * Every other byte passes as it came, and a server that reports usage beside choices keeps it. What passes does not depend
 * on how the stream is cut into chunks.
 *
 * Lines end with LF, CRLF or, if the first one does, with CR. Whole lines pass at once. An unfinished line waits for its
 * end, as no reader of events could use it before (WHATWG HTML §9.2.6: an event is dispatched at the empty line behind
 * it); a line longer than `maxHeldBytes` passes unread.
 */
import type { UsageChunk } from "../ir/usage.ts";
import { JsonMembers, type Member, memberPaths } from "./json-members.ts";

/** The longest line that is read, and the most that waits; the usage event is about 300 bytes long. */
export const maxHeldBytes = 16 * 1024;

/** How the stream is edited. */
export type UsageEdit = Exclude<UsageChunk, "Pass">;

const nothing = Buffer.alloc(0);
const dataField = "data:";
const nullMember = '"usage":null';
const eventPaths = memberPaths("usage", "choices", "object");

/** Lines that `Hide` looks at. */
const usageName = /"usage"/g;
/** Lines that `Merge` looks at: also those with a `finish_reason` that is not `null`. */
const usageOrFinish = /"usage"|"finish_reason"\s*:\s*[^n\s]/g;

const finish = /"finish_reason"\s*:\s*[^n\s]/;

const lineFeed = 0x0a;
const carriageReturn = 0x0d;

/** The last byte of a line's end. */
type LineEnd = typeof lineFeed | typeof carriageReturn;

/** An event that waits for the next one. */
interface WaitingEvent {
  /** Its data line, edited. */
  readonly line: string;
  /** Where in `line` a member can be added: at the `}` of its object. */
  readonly objectEnd: number;
  /** The lines behind it. */
  after: string;
}

/** The filter of one uncompressed stream. */
export class UsageEventFilter {
  readonly #mode: UsageEdit;
  readonly #interest: RegExp;
  /** Undefined until the first line ends. */
  #lineEnd: LineEnd | undefined;
  #unfinishedLine: Buffer = nothing;
  /** The unfinished line is too long to be read and passes. */
  #isPassing = false;
  /** The next line is the first of an event. */
  #startsEvent = true;
  /** The event before was cut; the empty line behind it goes too. */
  #cutsEmptyLine = false;
  #waiting: WaitingEvent | undefined;
  /** An event with choices has told a usage. */
  #hasTold = false;

  constructor(mode: UsageEdit) {
    this.#mode = mode;
    this.#interest = mode === "Hide" ? usageName : usageOrFinish;
  }

  /** Takes the upstream's next bytes and returns what may go to the client now, which may be empty. */
  push(chunk: Buffer): Buffer {
    if (this.#isPassing) return this.#pass(chunk);
    const bytes = this.#unfinishedLine.length === 0 ? chunk : Buffer.concat([this.#unfinishedLine, chunk]);
    this.#lineEnd ??= firstLineEnd(bytes);
    const end = this.#lineEnd === undefined ? 0 : bytes.lastIndexOf(this.#lineEnd) + 1;
    if (end === bytes.length) {
      this.#unfinishedLine = nothing;
      return this.#filter(bytes);
    }
    return this.#filterAndHold(bytes.subarray(0, end), bytes.subarray(end));
  }

  /** Returns what is left when the upstream has ended. */
  end(): Buffer {
    const last = this.#filter(this.#unfinishedLine);
    this.#unfinishedLine = nothing;
    return Buffer.concat([last, this.release()]);
  }

  /** The event that waits for the next one; another object for each event. */
  get waiting(): object | undefined {
    return this.#waiting;
  }

  /** Returns the event that waits, as it came. */
  release(): Buffer {
    const text = this.#takeWaiting();
    const bytes = text === "" ? nothing : Buffer.from(text, "latin1");
    return this.#lineEnd === carriageReturn ? swapped(bytes) : bytes;
  }

  get #isWaiting(): boolean {
    return this.#waiting !== undefined;
  }

  #filterAndHold(lines: Buffer, unfinished: Buffer): Buffer {
    const passed = this.#filter(lines);
    this.#isPassing = unfinished.length > maxHeldBytes;
    this.#unfinishedLine = this.#isPassing ? nothing : Buffer.from(unfinished);
    return this.#isPassing ? Buffer.concat([passed, this.release(), unfinished]) : passed;
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
    return this.#lineEnd === carriageReturn ? swapped(this.#edit(swapped(lines))) : this.#edit(lines);
  }

  /** Edits whole lines that end with LF; returns them as they are if there is nothing to edit. */
  #edit(lines: Buffer): Buffer {
    if (lines.length === 0) return lines;
    // Latin-1 keeps an index in the text one in the bytes.
    const text = lines.toString("latin1");
    let isEdited = this.#isWaiting;
    let passed = "";
    let from = this.#cutsEmptyLine ? emptyLineLength(text, 0) : 0;
    this.#cutsEmptyLine = false;
    for (let at = this.#find(text, from); at !== -1; ) {
      const start = text.lastIndexOf("\n", at) + 1;
      const end = endOfLine(text, at);
      const isRead = isReadable(text, start, end);
      const common = isRead && !this.#isWaiting ? commonCut(text, at, end) : undefined;
      const event = isRead && common === undefined ? readEvent(lines, text, start, end) : undefined;
      if (common !== undefined) {
        passed += text.slice(from, common.start);
        from = common.end;
      } else if (event !== undefined || this.#isWaiting) {
        isEdited = true;
        const between = text.slice(from, start);
        from = end;
        if (event?.kind !== "usage") {
          passed += this.#takeWaiting() + between + (event === undefined ? text.slice(start, end) : this.#admit(event));
        } else {
          const told = this.#tell(event, between);
          passed += told.text;
          if (told.isCut && isEventStart(text, start, this.#startsEvent)) from = this.#cutEmptyLine(text, end);
        }
      }
      at = this.#find(text, Math.max(from, end));
    }
    this.#startsEvent = isEventStart(text, text.length, this.#startsEvent);
    if (!isEdited && from === 0) return lines;
    return Buffer.from(passed + this.#keep(text.slice(from)), "latin1");
  }

  /** Where in the first line of interest from `from` on something is to be read; -1 if there is none. */
  #find(text: string, from: number): number {
    if (this.#isWaiting) {
      if (text.startsWith(dataField, from)) return from;
      const lineFeedAt = text.indexOf(`\n${dataField}`, from);
      return lineFeedAt === -1 ? -1 : lineFeedAt + 1;
    }
    this.#interest.lastIndex = from;
    return this.#interest.exec(text)?.index ?? -1;
  }

  /** Returns the line of an event with choices, or of any other but the usage event; nothing where it has to wait. */
  #admit(event: OtherEvent): string {
    const { line, objectEnd, hasChoices, hasUsage } = event;
    this.#hasTold ||= hasChoices && hasUsage;
    if (this.#mode === "Hide" || !hasChoices || hasUsage || !finish.test(line)) return line;
    this.#waiting = { line, objectEnd, after: "" };
    return "";
  }

  /** Returns what passes in place of the usage event, with the lines `between` it and what was looked at before. */
  #tell({ usage, withChoice }: UsageEvent, between: string): { readonly text: string; readonly isCut: boolean } {
    const waiting = this.#waiting;
    const hasRoom = waiting !== undefined && waitingLength(waiting) + between.length <= maxHeldBytes;
    if (hasRoom) {
      this.#waiting = undefined;
      this.#hasTold = true;
      const { line, objectEnd, after } = waiting;
      const merged = `${line.slice(0, objectEnd)},"usage":${usage}${line.slice(objectEnd)}`;
      return { text: merged + after + between, isCut: true };
    }
    const isCut = this.#mode === "Hide" || this.#hasTold;
    this.#hasTold = true;
    return { text: this.#takeWaiting() + between + (isCut ? "" : withChoice), isCut };
  }

  #takeWaiting(): string {
    const waiting = this.#waiting;
    if (waiting === undefined) return "";
    this.#waiting = undefined;
    return waiting.line + waiting.after;
  }

  /** Adds the rest of what has come to an event that waits, while there is room. @returns what passes. */
  #keep(rest: string): string {
    const waiting = this.#waiting;
    if (waiting === undefined) return rest;
    waiting.after += rest;
    return waitingLength(waiting) > maxHeldBytes ? this.#takeWaiting() : "";
  }

  /** Returns where to go on behind an event's only line: behind the empty line, which may still be to come. */
  #cutEmptyLine(text: string, at: number): number {
    this.#cutsEmptyLine = at === text.length;
    return at + emptyLineLength(text, at);
  }
}

function waitingLength({ line, after }: WaitingEvent): number {
  return line.length + after.length;
}

/** Whether the line is data, and not too long to be held if it had come in pieces. */
function isReadable(text: string, start: number, end: number): boolean {
  const length = text[end - 1] === "\n" ? end - 1 - start : end - start;
  return length <= maxHeldBytes && text.startsWith(dataField, start);
}

/** Whether the line at `at` is the first of an event; of the first line `startsEvent` tells. */
function isEventStart(text: string, at: number, startsEvent: boolean): boolean {
  if (at === 0) return startsEvent;
  if (text[at - 1] !== "\n") return false;
  const last = text[at - 2] === "\r" ? at - 3 : at - 2;
  return last < 0 || text[last] === "\n";
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

/** The part of a line to cut: a member and a comma. */
interface Cut {
  readonly start: number;
  readonly end: number;
}

/**
 * The member at `at` as OpenAI writes it in every event, `,"usage":null` in front of the line's only `}` from there on.
 * That this is the object's last brace proves it a member of the top level, so the line need not be read.
 */
function commonCut(text: string, at: number, end: number): Cut | undefined {
  if (!text.startsWith(nullMember, at) || text[at - 1] !== ",") return undefined;
  // Within the line: a search that ran on would read the rest of the chunk for each line without a brace.
  const brace = text.slice(at, end).indexOf("}") + at;
  if (brace < at) return undefined;
  const isLast = text[brace + 1] === "\n" || (text[brace + 1] === "\r" && text[brace + 2] === "\n");
  return isLast ? { start: at - 1, end: at + nullMember.length } : undefined;
}

/** The event that answers `include_usage`. */
interface UsageEvent {
  readonly kind: "usage";
  /** The JSON text of its usage. */
  readonly usage: string;
  /** Its line with a choice without content. */
  readonly withChoice: string;
}

/** Any other event whose data is one JSON object on one line. */
interface OtherEvent {
  readonly kind: "other";
  /** Without `"usage":null`. */
  readonly line: string;
  /** Of the object's `}` in `line`. */
  readonly objectEnd: number;
  readonly hasChoices: boolean;
  readonly hasUsage: boolean;
}

function readEvent(lines: Buffer, text: string, start: number, end: number): UsageEvent | OtherEvent | undefined {
  const dataStart = start + dataField.length;
  const members = new Map<string, Member>();
  const reader = new JsonMembers(eventPaths, (member) => members.set(member.path, member));
  reader.push(lines.subarray(dataStart, end));
  if (reader.end === undefined) return undefined;
  const valueOf = (name: string): string | undefined => {
    const member = members.get(name);
    return member && text.slice(dataStart + member.valueStart, dataStart + member.after).trim();
  };
  const usage = members.get("usage");
  const choices = members.get("choices");
  const usageText = valueOf("usage");
  const choicesText = valueOf("choices") ?? "";
  const isEmpty = choicesText === "null" || /^\[\s*\]$/.test(choicesText);
  if (usageText?.startsWith("{") === true && isEmpty && choices !== undefined) {
    const choice = valueOf("object") === '"text_completion"' ? '"text":""' : '"delta":{}';
    const before = text.slice(start, dataStart + choices.valueStart);
    const after = text.slice(dataStart + choices.after, end);
    const withChoice = `${before}[{"index":0,${choice},"finish_reason":null}]${after}`;
    return { kind: "usage", usage: usageText, withChoice };
  }
  const isNull = usage !== undefined && usageText === "null";
  const cut = isNull ? cutOfMember(text, dataStart + usage.before, dataStart + usage.after) : { start, end: start };
  return {
    kind: "other",
    line: text.slice(start, cut.start) + text.slice(cut.end, end),
    objectEnd: dataStart + reader.end - start - (cut.end - cut.start),
    hasChoices: choicesText.startsWith("[") && !isEmpty,
    hasUsage: usage !== undefined && !isNull,
  };
}

/** The member with one comma: that in front of it, or that behind it if it is the first. */
function cutOfMember(text: string, before: number, after: number): Cut {
  if (text[before] === ",") return { start: before, end: after };
  return { start: before + 1, end: text[after] === "," ? after + 1 : after };
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
