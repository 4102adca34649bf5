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
  /**
   * In events of models: what the model wrote, what other members say besides, and the lines that are no such events. 0 where
   * no event is of a model.
   */
  readonly ofModels: number;
  /** In all events, whatever their members are called, and in lines that are no events. */
  readonly ofAll: number;
}

/**
 * Reads the text in the lines of a part of a stream. A line that is not JSON counts whole, whatever it begins with: where a
 * server sends what a model writes as it is, the model can begin a line with `:` or `id:`. Only an `event:` line that names the
 * `type` of the data behind it is part of the framing.
 */
export function streamedText(lines: Buffer): StreamedText {
  let ofModels = 0;
  let ofOthers = 0;
  let ofAll = 0;
  /** The last `event:` line, until its data has come. */
  let eventLine = "";
  for (const line of lines.toString().split("\n")) {
    if (line === "") continue;
    // A line of JSON for each piece, as Ollama streams.
    const data = (line.startsWith("data:") ? line.slice("data:".length) : line).trim();
    const event = parseObject(data);
    if (event === undefined) {
      if (data === "" || data === "[DONE]") continue;
      ofOthers += Buffer.byteLength(data);
      ofAll += Buffer.byteLength(data);
      if (data.startsWith("event:")) eventLine = data;
      continue;
    }
    if (eventLine !== "" && "type" in event && event.type === eventLine.slice("event:".length).trim()) {
      ofOthers -= Buffer.byteLength(eventLine);
      ofAll -= Buffer.byteLength(eventLine);
    }
    eventLine = "";
    ofModels += eventTextBytes(event);
    ofOthers += otherTextBytes(event);
    ofAll += textBytes(event);
  }
  return { ofModels: ofModels === 0 ? 0 : ofModels + Math.max(0, ofOthers), ofAll: Math.max(0, ofAll) };
}

/** Members of events that carry no text of a model, or text that was streamed before. */
const envelope = new Set([
  ...["object", "created", "created_at", "system_fingerprint", "service_tier", "obfuscation", "event", "event_type"],
  ...["provider", "usage", "usageMetadata", "modelVersion", "responseId", "response_id", "item_id", "generation_id"],
  ...["conversation_id", "request_id", "done_reason", "context", "details", "error", "x_groq", "prompt_token_ids"],
  ...["prompt_filter_results", "content_filter_results", "meta_info", "response"],
]);

/** Whether an event of this type, of OpenAI's responses, repeats what events of `delta` have brought. */
export function repeatsText(eventType: string): boolean {
  return eventType.startsWith("response.") && !eventType.endsWith(".delta");
}

/** Text of an event in members that no known API has: a server may put there what its model wrote. */
function otherTextBytes(event: object): number {
  if ("type" in event && typeof event.type === "string" && event.type.startsWith("response.")) return 0;
  let bytes = 0;
  for (const [name, member] of Object.entries(event)) {
    if (!textMembers.has(name) && !envelope.has(name) && !labels.has(name)) bytes += textBytes(member);
  }
  return bytes;
}

/** Text of an event in the members that a model writes; objects in `response` repeat it (OpenAI responses). */
function eventTextBytes(event: object): number {
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
const labels = new Set(["id", "type", "model", "role", "finish_reason", "stop_reason", "logprobs", "signature"]);

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

/** Undefined where the text is not a JSON object or array. */
function parseObject(text: string): object | undefined {
  if (text[0] !== "{" && text[0] !== "[") return undefined;
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}
