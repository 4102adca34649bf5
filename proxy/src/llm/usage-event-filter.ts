/**
 * Edits a stream of chat or text completions whose usage the gateway requested and the client did not
 * (`ai-request.ts`).
 *
 * For `stream_options.include_usage` OpenAI's API sends one more event before `[DONE]`, with empty `choices` and a
 * `usage`, and `"usage":null` in all other events. `"usage":null` is always removed. The usage event is edited by
 * mode:
 *
 * - `Hide`: it is removed.
 * - `Merge`: it is removed, and its `usage` becomes the last member of the event before it. Only an event with a
 *   `finish_reason` waits for the next one, so that no other event is delayed. If no such event waits, the usage event
 *   gets one choice without content, so that the client receives the usage and no event without choices.
 *
 * All other bytes pass unchanged, including a usage that a server reports beside choices. The output does not depend
 * on how the stream is cut into chunks.
 *
 * Lines end with LF, CRLF or, if the first one does, with CR. Whole lines pass immediately. An incomplete line waits
 * for its end, since a client can use an event only after the empty line that follows it (WHATWG HTML §9.2.6). A line
 * longer than `maxBufferedBytes` passes without inspection.
 */
import type { UsageChunk } from "../ir/usage.ts";
import { JsonMembers, type Member, memberPaths } from "./json-members.ts";

/** The maximum length of a line that is inspected, and of the data that waits. A usage event has about 300 bytes. */
export const maxBufferedBytes = 16 * 1024;

/** The mode of editing. */
export type UsageEdit = Exclude<UsageChunk, "Pass">;

const emptyBuffer = Buffer.alloc(0);
const dataField = "data:";
const nullMember = '"usage":null';
const eventPaths = memberPaths("usage", "choices", "object");

/** Finds the lines that `Hide` inspects. */
const usageName = /"usage"/g;
/** Finds the lines that `Merge` inspects: also those with a `finish_reason` that is not `null`. */
const usageOrFinish = /"usage"|"finish_reason"\s*:\s*[^n\s]/g;

const finishReason = /"finish_reason"\s*:\s*[^n\s]/;

const lineFeed = 0x0a;
const carriageReturn = 0x0d;

/** The last byte of a line's end. */
type LineEnd = typeof lineFeed | typeof carriageReturn;

/** An event that waits for the next one. */
interface PendingEvent {
  /** The edited data line. */
  readonly line: string;
  /** The offset in `line` at which a member can be added: the `}` of its object. */
  readonly objectEnd: number;
  /** The lines after it. */
  after: string;
}

/** The filter of one uncompressed stream. */
export class UsageEventFilter {
  readonly #mode: UsageEdit;
  readonly #interest: RegExp;
  /** Undefined until the first line ends. */
  #lineEnd: LineEnd | undefined;
  #unfinishedLine: Buffer = emptyBuffer;
  /** Whether the incomplete line is too long to inspect and passes. */
  #isPassing = false;
  /** Whether the next line is the first of an event. */
  #startsEvent = true;
  /** Whether the previous event was removed, so that the empty line after it is removed too. */
  #cutsEmptyLine = false;
  #pending: PendingEvent | undefined;
  /** Whether the client has received a usage. */
  #hasReportedUsage = false;

  constructor(mode: UsageEdit) {
    this.#mode = mode;
    this.#interest = mode === "Hide" ? usageName : usageOrFinish;
  }

  /** Takes the next bytes of the upstream. Returns the bytes to send to the client now, which may be empty. */
  push(chunk: Buffer): Buffer {
    if (this.#isPassing) return this.#pass(chunk);
    const bytes = this.#unfinishedLine.length === 0 ? chunk : Buffer.concat([this.#unfinishedLine, chunk]);
    this.#lineEnd ??= firstLineEnd(bytes);
    const end = this.#lineEnd === undefined ? 0 : bytes.lastIndexOf(this.#lineEnd) + 1;
    if (end === bytes.length) {
      this.#unfinishedLine = emptyBuffer;
      return this.#filter(bytes);
    }
    return this.#filterAndBuffer(bytes.subarray(0, end), bytes.subarray(end));
  }

  /** Returns the remaining bytes after the end of the stream. */
  end(): Buffer {
    const last = this.#filter(this.#unfinishedLine);
    this.#unfinishedLine = emptyBuffer;
    return Buffer.concat([last, this.release()]);
  }

  /** The event that waits for the next one; a different object for each event. */
  get pending(): object | undefined {
    return this.#pending;
  }

  /** Returns the waiting event without a usage. */
  release(): Buffer {
    const text = this.#takePending();
    const bytes = text === "" ? emptyBuffer : Buffer.from(text, "latin1");
    return this.#lineEnd === carriageReturn ? withSwappedLineEnds(bytes) : bytes;
  }

  get #hasPending(): boolean {
    return this.#pending !== undefined;
  }

  #filterAndBuffer(lines: Buffer, unfinished: Buffer): Buffer {
    const passed = this.#filter(lines);
    this.#isPassing = unfinished.length > maxBufferedBytes;
    this.#unfinishedLine = this.#isPassing ? emptyBuffer : Buffer.from(unfinished);
    return this.#isPassing ? Buffer.concat([passed, this.release(), unfinished]) : passed;
  }

  /** Passes the rest of a long line. */
  #pass(chunk: Buffer): Buffer {
    this.#lineEnd ??= firstLineEnd(chunk);
    const end = this.#lineEnd === undefined ? 0 : chunk.indexOf(this.#lineEnd) + 1;
    if (end === 0) return chunk;
    this.#isPassing = false;
    this.#startsEvent = false;
    return Buffer.concat([chunk.subarray(0, end), this.push(chunk.subarray(end))]);
  }

  #filter(lines: Buffer): Buffer {
    return this.#lineEnd === carriageReturn
      ? withSwappedLineEnds(this.#edit(withSwappedLineEnds(lines)))
      : this.#edit(lines);
  }

  /** Edits whole lines that end with LF. Returns the same object if there is nothing to edit. */
  #edit(lines: Buffer): Buffer {
    if (lines.length === 0) return lines;
    // In Latin-1 an index in the text is one in the bytes.
    const text = lines.toString("latin1");
    let isEdited = this.#hasPending;
    let passed = "";
    let from = this.#cutsEmptyLine ? emptyLineLength(text, 0) : 0;
    this.#cutsEmptyLine = false;
    for (let at = this.#find(text, from); at !== -1; ) {
      const start = text.lastIndexOf("\n", at) + 1;
      const end = endOfLine(text, at);
      const isRead = isReadable(text, start, end);
      const trailingNull = isRead && !this.#hasPending ? cutOfTrailingNull(text, at, end) : undefined;
      const event = isRead && trailingNull === undefined ? readEvent(lines, text, start, end) : undefined;
      if (trailingNull !== undefined) {
        passed += text.slice(from, trailingNull.start);
        from = trailingNull.end;
      } else if (event !== undefined || this.#hasPending) {
        isEdited = true;
        const between = text.slice(from, start);
        from = end;
        if (event?.kind !== "usage") {
          passed +=
            this.#takePending() + between + (event === undefined ? text.slice(start, end) : this.#passOrBuffer(event));
        } else {
          const replaced = this.#replaceUsageEvent(event, between);
          passed += replaced.text;
          if (replaced.isCut && isEventStart(text, start, this.#startsEvent)) from = this.#cutEmptyLine(text, end);
        }
      }
      at = this.#find(text, Math.max(from, end));
    }
    this.#startsEvent = isEventStart(text, text.length, this.#startsEvent);
    if (!isEdited && from === 0) return lines;
    return Buffer.from(passed + this.#bufferRest(text.slice(from)), "latin1");
  }

  /** Returns the index of the next match from `from` on, in a line to inspect; -1 if there is none. */
  #find(text: string, from: number): number {
    if (this.#hasPending) {
      if (text.startsWith(dataField, from)) return from;
      const lineFeedAt = text.indexOf(`\n${dataField}`, from);
      return lineFeedAt === -1 ? -1 : lineFeedAt + 1;
    }
    this.#interest.lastIndex = from;
    return this.#interest.exec(text)?.index ?? -1;
  }

  /** Returns the line of an event other than the usage event; an empty text if the event has to wait. */
  #passOrBuffer(event: OtherEvent): string {
    const { line, objectEnd, hasChoices, hasUsage } = event;
    this.#hasReportedUsage ||= hasChoices && hasUsage;
    if (this.#mode === "Hide" || !hasChoices || hasUsage || !finishReason.test(line)) return line;
    this.#pending = { line, objectEnd, after: "" };
    return "";
  }

  /** Returns the text that replaces the usage event and the lines `between` it and the previous inspected line. */
  #replaceUsageEvent(
    { usage, withChoice }: UsageEvent,
    between: string,
  ): { readonly text: string; readonly isCut: boolean } {
    const pending = this.#pending;
    const fits = pending !== undefined && pendingLength(pending) + between.length <= maxBufferedBytes;
    if (fits) {
      this.#pending = undefined;
      this.#hasReportedUsage = true;
      const { line, objectEnd, after } = pending;
      const merged = `${line.slice(0, objectEnd)},"usage":${usage}${line.slice(objectEnd)}`;
      return { text: merged + after + between, isCut: true };
    }
    const isCut = this.#mode === "Hide" || this.#hasReportedUsage;
    this.#hasReportedUsage = true;
    return { text: this.#takePending() + between + (isCut ? "" : withChoice), isCut };
  }

  #takePending(): string {
    const pending = this.#pending;
    if (pending === undefined) return "";
    this.#pending = undefined;
    return pending.line + pending.after;
  }

  /** Adds the remaining lines to the waiting event while there is room. @returns the text to pass. */
  #bufferRest(rest: string): string {
    const pending = this.#pending;
    if (pending === undefined) return rest;
    pending.after += rest;
    return pendingLength(pending) > maxBufferedBytes ? this.#takePending() : "";
  }

  /**
   * Returns the index after the empty line that follows an event's only line. The empty line may be in the next chunk.
   */
  #cutEmptyLine(text: string, at: number): number {
    this.#cutsEmptyLine = at === text.length;
    return at + emptyLineLength(text, at);
  }
}

function pendingLength({ line, after }: PendingEvent): number {
  return line.length + after.length;
}

/**
 * Whether the line is data and not longer than an incomplete line may be, so that the result does not depend on chunks.
 */
function isReadable(text: string, start: number, end: number): boolean {
  const length = text[end - 1] === "\n" ? end - 1 - start : end - start;
  return length <= maxBufferedBytes && text.startsWith(dataField, start);
}

/** Whether the line at `at` is the first of an event. For the first line `startsEvent` decides. */
function isEventStart(text: string, at: number, startsEvent: boolean): boolean {
  if (at === 0) return startsEvent;
  if (text[at - 1] !== "\n") return false;
  const last = text[at - 2] === "\r" ? at - 3 : at - 2;
  return last < 0 || text[last] === "\n";
}

/** Returns the line end of the stream; undefined while it is unknown: a CR as the last byte may be half of a CRLF. */
function firstLineEnd(bytes: Buffer): LineEnd | undefined {
  const line = bytes.indexOf(lineFeed);
  const carriage = bytes.indexOf(carriageReturn);
  if (carriage === -1 || (line !== -1 && line <= carriage + 1)) return line === -1 ? undefined : lineFeed;
  return carriage + 1 === bytes.length ? undefined : carriageReturn;
}

/** Returns a copy with LF and CR exchanged. */
function withSwappedLineEnds(bytes: Buffer): Buffer {
  const swapped = Buffer.from(bytes);
  for (let at = 0; at < swapped.length; at++) {
    if (swapped[at] === lineFeed) swapped[at] = carriageReturn;
    else if (swapped[at] === carriageReturn) swapped[at] = lineFeed;
  }
  return swapped;
}

/** The part of a line to remove: a member and a comma. */
interface Cut {
  readonly start: number;
  readonly end: number;
}

/**
 * Finds `,"usage":null` as the last member of a line, where OpenAI writes it in each event. If only one `}` follows,
 * the member is at the top level, so the line need not be parsed.
 */
function cutOfTrailingNull(text: string, at: number, end: number): Cut | undefined {
  if (!text.startsWith(nullMember, at) || text[at - 1] !== ",") return undefined;
  // The search is limited to the line: otherwise each line without a brace would search the rest of the chunk.
  const brace = text.slice(at, end).indexOf("}") + at;
  if (brace < at) return undefined;
  const isLast = text[brace + 1] === "\n" || (text[brace + 1] === "\r" && text[brace + 2] === "\n");
  return isLast ? { start: at - 1, end: at + nullMember.length } : undefined;
}

/** The additional event for `include_usage`. */
interface UsageEvent {
  readonly kind: "usage";
  /** The JSON text of the usage. */
  readonly usage: string;
  /** The line with an added choice without content. */
  readonly withChoice: string;
}

/** Any other event whose data is one JSON object on one line. */
interface OtherEvent {
  readonly kind: "other";
  /** The line without `"usage":null`. */
  readonly line: string;
  /** The offset of the object's `}` in `line`. */
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

/** The member with one comma: the one before it, or the one after it if the member is the first. */
function cutOfMember(text: string, before: number, after: number): Cut {
  if (text[before] === ",") return { start: before, end: after };
  return { start: before + 1, end: text[after] === "," ? after + 1 : after };
}

/** Returns the index after the line's end. */
function endOfLine(text: string, from: number): number {
  const at = text.indexOf("\n", from);
  return at === -1 ? text.length : at + 1;
}

/** Returns the length of the empty line at `at`; 0 if there is none. */
function emptyLineLength(text: string, at: number): number {
  if (text[at] === "\n") return 1;
  return text[at] === "\r" && text[at + 1] === "\n" ? 2 : 0;
}
