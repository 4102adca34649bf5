/**
 * What an answer has cost as far as the upstream does not report it: four bytes of text are a token. Of a stream only the
 * text counts that the model wrote; the JSON around each piece is ten times as long.
 */

/** Tokens of `textBytes` of text, rounded up. */
export function tokensOfText(textBytes: number): number {
  return Math.ceil(textBytes / 4);
}

/**
 * Members in which what a model wrote stands, in bodies and in events: `choices` (OpenAI chat and completions), `output`
 * (OpenAI responses), `content` and `completion` (Anthropic), `delta` (both, in events), `candidates` (Gemini), `message`
 * and `response` (Ollama), `generated_text` and, in events, `token` (TGI).
 */
export const textMembers: ReadonlySet<string> = new Set([
  "choices",
  "output",
  "content",
  "completion",
  "delta",
  "candidates",
  "message",
  "response",
  "generated_text",
  "token",
]);

/** UTF-8 bytes of text in a part of a stream. */
export interface StreamedText {
  /** In the members that a model writes. */
  readonly ofModels: number;
  /** In all events, whatever their members are called, and in lines that are no events. */
  readonly ofAll: number;
}

/** Reads the text in the lines of a part of a stream. Events of models that are not whole count nothing. */
export function streamedText(lines: Buffer): StreamedText {
  let ofModels = 0;
  let ofAll = 0;
  for (const line of lines.toString().split("\n")) {
    // A line of JSON for each piece, as Ollama streams.
    const data = line.startsWith("data:") ? line.slice("data:".length).trim() : line.trim();
    if (data === "" || data === "[DONE]" || /^(?::|event:|id:|retry:)/.test(line)) continue;
    const event = parseJson(data);
    ofModels += eventTextBytes(event);
    ofAll += event === undefined ? Buffer.byteLength(data) : textBytes(event);
  }
  return { ofModels, ofAll };
}

/**
 * Everything else that an event says is short, or repeats what was streamed before, as objects in `response` do (OpenAI
 * responses).
 */
function eventTextBytes(event: unknown): number {
  if (typeof event !== "object" || event === null) return 0;
  let bytes = 0;
  for (const [name, member] of Object.entries(event)) {
    if (!textMembers.has(name) || (name === "response" && typeof member !== "string")) continue;
    // The last event repeats all tokens.
    if (name === "generated_text" && "token" in event) continue;
    bytes += textBytes(member);
  }
  return bytes;
}

/** Members of a choice or a delta that are no text of the model, or repeat it. */
const labels = new Set([
  "id",
  "type",
  "model",
  "role",
  "name",
  "finish_reason",
  "stop_reason",
  "logprobs",
  "signature",
]);

/** Whole numbers in arrays are ids of tokens, of four bytes each. Without recursion: a provider may nest as deep as a line is long. */
function textBytes(value: unknown): number {
  const open = [value];
  let bytes = 0;
  while (open.length > 0) {
    const next = open.pop();
    if (typeof next === "string") bytes += Buffer.byteLength(next);
    if (typeof next !== "object" || next === null) continue;
    if (Array.isArray(next)) bytes += 4 * next.filter((element) => Number.isInteger(element)).length;
    for (const [name, member] of Object.entries(next)) if (!labels.has(name)) open.push(member);
  }
  return bytes;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
