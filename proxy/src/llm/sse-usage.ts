/**
 * Reads the usage of a stream of server-sent events (WHATWG HTML §9.2).
 *
 * Events are copied into a small buffer and examined in blocks: one search for `"usage"` over 16 KiB replaces the
 * parsing of each of its some sixty events. Only lines with a usage other than `null` are parsed as JSON, at any
 * position of the stream. A line longer than a block (the `response.completed` event repeats the whole conversation) is
 * scanned without a copy. So the memory is bounded at twice `blockBytes`, and no usage is missed.
 *
 * Lines end with LF, CRLF or CR, and are stored with LF. Nearly all events have their JSON on one `data:` line. If the
 * line with the usage is not a complete JSON text, the `data:` lines of its event are read as one text, joined by LF.
 *
 * A response without a usage is estimated by its text. The lines in the buffer and long lines count in full. Of each
 * block before them a sample counts, so that most events need not be parsed.
 */
import { streamedText, tokensOfText } from "./estimate.ts";
import type { FirstToken } from "./first-token.ts";
import { UsageScan } from "./usage-scan.ts";
import type { UsageTally } from "./usage.ts";

/** The size of a block, which is also the size of the stream's end that is kept for an estimate. */
export const blockBytes = 16 * 1024;

const lineFeed = 0x0a;
const carriageReturn = 0x0d;
const openBrace = 0x7b;
const newLine = Buffer.from("\n");
/** The LF of an event's last line, and an empty line (WHATWG HTML §9.2.6). */
const endOfEvent = Buffer.from("\n\n");
const dataField = Buffer.from("data:");
/** May precede the first event (WHATWG HTML §9.2.5). */
const byteOrderMark = Buffer.from("\ufeff");
/** The least size of the two samples of a block, before its middle and before its end, which are whole events. */
const sampleBytes = 384;
/**
 * Matches a usage member of any dialect that is not `null`, or whose value is on the next line. In an OpenAI stream
 * the member is `null` in all events but the last. One expression serves all dialects: the content of the first event,
 * such as the arguments of a tool, must not decide what is read. A longer name with the same end matches too, without
 * effect. The bytes are searched as Latin-1, so that an index in the text is one in the bytes.
 */
const usageMember =
  /(?:usage(?:Metadata)?|invocationMetrics|meta(?:_info)?|eval_count)"(?:\s*:\s*[^n\s]|[^\S\n]*(?::[^\S\n]*)?(?:\n|$))/g;

/** Bytes of text, like in `StreamedText`. */
interface TextBytes {
  ofModels: number;
  ofAll: number;
}

/** The reader of one event stream, after content decoding. It writes what it finds to a `UsageTally`. */
export class SseUsage {
  readonly #tally: UsageTally;
  /** Grows up to two blocks: the last examined one and the one being filled. */
  #buffer = Buffer.allocUnsafe(2 * 1024);
  #length = 0;
  /** All lines that begin before this offset have been examined. */
  #examined = 0;
  /** Lines before this offset have been read as JSON, or belong to an event that has ended. */
  #read = 0;
  #hasDropped = false;
  #hasBytes = false;
  #endsWithCarriageReturn = false;
  /** Whether the stream consists of JSON lines without event framing; undefined until the first line of either kind. */
  #isLines: boolean | undefined;
  /** The current line if it is longer than a block. */
  #longLine: LongLine | undefined;
  /** The scan of an incomplete event whose JSON is on several lines. */
  #event: UsageScan | undefined;
  /** Text in lines that were dropped from the buffer, by samples. */
  readonly #dropped: TextBytes = { ofModels: 0, ofAll: 0 };
  /** Text in long lines. */
  readonly #long: TextBytes = { ofModels: 0, ofAll: 0 };
  /** Undefined when it has read enough. */
  #firstToken: FirstToken | undefined;

  constructor(tally: UsageTally, firstToken?: FirstToken) {
    this.#tally = tally;
    this.#firstToken = firstToken;
  }

  /** Reads the next bytes. Keeps no reference to `chunk`. */
  push(chunk: Buffer): void {
    if (chunk.length === 0) return;
    this.#hasBytes = true;
    if (this.#firstToken?.push(chunk) === false) this.#firstToken = undefined;
    const from = this.#endsWithCarriageReturn && chunk[0] === lineFeed ? 1 : 0;
    this.#endsWithCarriageReturn = chunk.at(-1) === carriageReturn;
    const lines = chunk.includes(carriageReturn) ? withLineFeeds(chunk.subarray(from)) : chunk;
    let at = lines === chunk ? from : 0;
    while (at < lines.length) at = this.#longLine === undefined ? this.#copy(lines, at) : this.#scanLongLine(lines, at);
  }

  /** Reads the rest of the buffer. `push` must not be called afterwards. */
  end(): void {
    this.#endLongLine();
    this.#examine(this.#length);
    this.#endEvent();
  }

  /** The estimated tokens of the model's text; 0 if no event contains text of a model. */
  textTokens(): number {
    const ofModels = this.#dropped.ofModels + streamedText(this.#bufferedLines).ofModels;
    return tokensOfText(ofModels === 0 ? 0 : ofModels + this.#long.ofModels);
  }

  /** The estimated tokens of all text, for events of any format. */
  allTextTokens(): number {
    return tokensOfText(this.#dropped.ofAll + this.#long.ofAll + streamedText(this.#bufferedLines).ofAll);
  }

  readonly markBytes = 0;

  /** Whether any bytes have been received. */
  get isStreaming(): boolean {
    return this.#hasBytes;
  }

  get #bufferedLines(): Buffer {
    return this.#buffer.subarray(0, this.#length);
  }

  #copy(chunk: Buffer, from: number): number {
    if (this.#length === this.#buffer.length) this.#growOrDropLines();
    if (this.#longLine !== undefined) return from;
    const copied = chunk.copy(this.#buffer, this.#length, from);
    this.#length += copied;
    return from + copied;
  }

  #growOrDropLines(): void {
    if (this.#length < 2 * blockBytes) {
      this.#buffer = Buffer.concat([this.#buffer], 2 * this.#length);
      return;
    }
    const lineStart = this.#buffer.lastIndexOf(lineFeed) + 1;
    this.#examine(lineStart);
    if (this.#length - lineStart > blockBytes) this.#startLongLine(lineStart);
    else this.#dropLines(this.#buffer.indexOf(lineFeed, this.#length - blockBytes - 1) + 1);
  }

  /** Drops the examined lines before `end` and adds their text to the estimate. */
  #dropLines(end: number): void {
    if (!this.#tally.isSettled || this.#tally.isIncomplete) {
      const middle = startOfLine(this.#buffer, end >> 1);
      this.#sample(0, middle);
      this.#sample(middle, end);
    }
    this.#buffer.copyWithin(0, end, this.#length);
    this.#hasDropped = true;
    this.#examined -= end;
    this.#read = Math.max(0, this.#read - end);
    this.#length -= end;
  }

  /**
   * Estimates the text of the lines from `start` to `end` by their last events, in two ways: all events have the same
   * share of text, or all have the same number of other bytes. The second way counts text of varying length in full.
   * The larger estimate is used.
   */
  #sample(start: number, end: number): void {
    if (start === end) return;
    const from = this.#startOfEvent(startOfLine(this.#buffer, Math.max(start, end - sampleBytes)), start);
    const { ofModels, ofAll } = streamedText(this.#buffer.subarray(from, end));
    const [size, sampleSize] = [end - start, end - from];
    const lineRatio = this.#countLines(start, end) / this.#countLines(from, end);
    const estimate = (text: number) =>
      text === 0 ? 0 : Math.max((size / sampleSize) * text, size - lineRatio * (sampleSize - text));
    this.#dropped.ofModels += estimate(ofModels);
    this.#dropped.ofAll += estimate(ofAll);
  }

  #startOfEvent(lineStart: number, start: number): number {
    if (lineStart === start) return start;
    const blankLine = this.#buffer.lastIndexOf(endOfEvent, lineStart - 1);
    return blankLine < start ? lineStart : blankLine + endOfEvent.length;
  }

  #countLines(start: number, end: number): number {
    let lines = 0;
    for (let at = start; at < end; at = endOfLine(this.#buffer, at, end) + 1) lines++;
    return lines;
  }

  #startLongLine(lineStart: number): void {
    const line = this.#buffer.subarray(lineStart, this.#length);
    const data = this.#jsonOf(line);
    // An event on several lines continues in this one.
    const scan = this.#event ?? new UsageScan(this.#tally);
    if (this.#event !== undefined) scan.push(newLine);
    this.#event = undefined;
    this.#longLine = { scan, isJson: data !== undefined, bytes: line.length, textBefore: scan.textBytes };
    if (data !== undefined) scan.push(data);
    this.#length = lineStart;
  }

  #scanLongLine(chunk: Buffer, from: number): number {
    const lineEnd = chunk.indexOf(lineFeed, from);
    const rest = chunk.subarray(from, lineEnd === -1 ? chunk.length : lineEnd);
    if (this.#longLine !== undefined) {
      this.#longLine.bytes += rest.length;
      if (this.#longLine.isJson) this.#longLine.scan.push(rest);
    }
    if (lineEnd === -1) return chunk.length;
    this.#endLongLine();
    return lineEnd + 1;
  }

  #endLongLine(): void {
    const line = this.#longLine;
    if (line === undefined) return;
    const { scan, isJson, bytes, textBefore } = line;
    const isText = !isJson || scan.isOther;
    const text = isText ? bytes : scan.textBytes - textBefore;
    this.#long.ofAll += text;
    if (isText || !scan.repeatsText) this.#long.ofModels += text;
    this.#longLine = undefined;
    if (isJson && scan.isOpen) this.#event = scan;
    else scan.end();
  }

  /** Examines the lines up to `end`, which is the start of a line or the end of the stream. */
  #examine(end: number): void {
    const start = this.#examined;
    if (this.#isLines === undefined) this.#findForm(end);
    let next = this.#event === undefined ? start : this.#readData(start, end);
    const text = this.#buffer.toString("latin1", start, end);
    for (const match of text.matchAll(usageMember)) {
      const at = start + match.index;
      // The first match reads the whole line. A line that repeats the member is not read again.
      if (at < next) continue;
      const lineStart = startOfLine(this.#buffer, at);
      next = endOfLine(this.#buffer, at, end);
      if (this.#readLine(this.#buffer.subarray(lineStart, next))) this.#read = next;
      else next = this.#readEvent(lineStart, end);
    }
    this.#examined = end;
  }

  /** @returns false if the line is data and not a complete JSON text. */
  #readLine(line: Buffer): boolean {
    const data = this.#jsonOf(line);
    if (data === undefined) return true;
    const scan = new UsageScan(this.#tally);
    scan.push(data);
    const isWhole = !scan.isOpen && !scan.isOther;
    if (isWhole || data === line) scan.end();
    return isWhole || data === line;
  }

  /** Reads the event that contains the line at `lineStart`, from its first line. @returns the index after it. */
  #readEvent(lineStart: number, end: number): number {
    let start = lineStart;
    while (start > this.#read && this.#buffer[start - 2] !== lineFeed && start > 1) {
      start = startOfLine(this.#buffer, start - 1);
    }
    if (start === 0 && this.#hasDropped) this.#tally.setIncomplete();
    return this.#readData(start, end);
  }

  /** Reads the data of an event from the line at `start` up to an empty line. @returns the index after it, or `end`. */
  #readData(start: number, end: number): number {
    let at = start;
    while (at < end) {
      const lineEnd = endOfLine(this.#buffer, at, end);
      if (lineEnd === at) break;
      const line = this.#buffer.subarray(at, lineEnd);
      const data = this.#jsonOf(line);
      if (data !== undefined && data !== line) this.#pushData(data);
      at = lineEnd + 1;
    }
    this.#read = Math.min(at, end);
    if (at < end) this.#endEvent();
    return this.#read;
  }

  /** Finds the first line of JSON or data before `end`. If its data is not JSON, the stream may be text of a model. */
  #findForm(end: number): void {
    for (let at = 0; at < end && this.#isLines === undefined; at = endOfLine(this.#buffer, at, end) + 1) {
      this.#setForm(this.#buffer.subarray(at, endOfLine(this.#buffer, at, end)));
    }
  }

  #setForm(rawLine: Buffer): void {
    const line = withoutByteOrderMark(rawLine);
    if (line[0] === openBrace) {
      this.#isLines = true;
    } else if (isData(line)) {
      this.#isLines = false;
      if (!/^[\s{[]*$/.test(line.toString("latin1", dataField.length, dataField.length + 2))) {
        this.#tally.setIncomplete();
      }
    }
  }

  /** Returns the part of a line that may be JSON: the data of an event, or the line itself. */
  #jsonOf(rawLine: Buffer): Buffer | undefined {
    const line = withoutByteOrderMark(rawLine);
    if (this.#isLines === undefined) this.#setForm(line);
    if (this.#isLines === true) return line[0] === openBrace ? rawLine : undefined;
    return isData(line) ? line.subarray(dataField.length) : undefined;
  }

  #pushData(data: Buffer): void {
    if (this.#event === undefined) this.#event = new UsageScan(this.#tally);
    else this.#event.push(newLine);
    this.#event.push(data);
    if (this.#event.isComplete || this.#event.isOther) this.#endEvent();
  }

  #endEvent(): void {
    this.#event?.end();
    this.#event = undefined;
  }
}

/** A line that is scanned without a copy. */
interface LongLine {
  readonly scan: UsageScan;
  readonly isJson: boolean;
  bytes: number;
  /** The `textBytes` of `scan` before the line. */
  readonly textBefore: number;
}

/** The first line may begin with a byte order mark. */
function withoutByteOrderMark(line: Buffer): Buffer {
  return line.subarray(0, byteOrderMark.length).equals(byteOrderMark) ? line.subarray(byteOrderMark.length) : line;
}

function isData(line: Buffer): boolean {
  return line.subarray(0, dataField.length).equals(dataField);
}

/** Returns a copy with LF instead of CR and CRLF. */
function withLineFeeds(chunk: Buffer): Buffer {
  const lines = Buffer.allocUnsafe(chunk.length);
  let length = 0;
  for (let from = 0; from < chunk.length; ) {
    const at = chunk.indexOf(carriageReturn, from);
    const end = at === -1 ? chunk.length : at;
    length += chunk.copy(lines, length, from, end);
    if (at !== -1) lines[length++] = lineFeed;
    from = at !== -1 && chunk[at + 1] === lineFeed ? at + 2 : end + 1;
  }
  return lines.subarray(0, length);
}

function startOfLine(lines: Buffer, at: number): number {
  return at === 0 ? 0 : lines.lastIndexOf(lineFeed, at - 1) + 1;
}

/** Returns the index of the LF, or `end` if there is none before it. */
function endOfLine(lines: Buffer, at: number, end: number): number {
  const found = lines.indexOf(lineFeed, at);
  return found === -1 || found > end ? end : found;
}
