/**
 * Estimates the tokens of a response that does not report them: four bytes of text are a token. In a stream only the
 * text of the model counts, since the JSON around each piece is ten times as long.
 */

/** Returns the tokens for `textBytes` of text, rounded up. */
export function tokensOfText(textBytes: number): number {
  return Math.ceil(textBytes / 4);
}

/**
 * Members that contain the text of a model, in bodies and in events: `choices` (OpenAI chat and completions), `output`
 * (OpenAI responses), `content` and `completion` (Anthropic), `delta` (both, in events), `candidates` (Gemini),
 * `message` and `response` (Ollama), `generated_text` and, in events, `token` (TGI).
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
   * The text of the model, of other members in the same events, and of lines that are not such events; 0 if no event
   * contains text of a model.
   */
  readonly ofModels: number;
  /** The text of all members of all events, and of lines that are not events. */
  readonly ofAll: number;
}

/**
 * Counts the text in the lines of a part of a stream. A line that is not JSON counts whole, also with a prefix such as
 * `:` or `id:`: a server may send the text of a model without framing, and the model can begin a line like this. Only
 * an `event:` line that names the `type` of the following data is framing.
 */
export function streamedText(lines: Buffer): StreamedText {
  let ofModels = 0;
  let ofOthers = 0;
  let ofAll = 0;
  /** The last `event:` line, until its data follows. */
  let eventLine = "";
  for (const line of lines.toString().split("\n")) {
    if (line === "") continue;
    // Ollama streams lines of JSON without `data:`.
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

/** Members of events without text of a model, or with text that was streamed before; `p` is padding (Bedrock). */
const metadataMembers = new Set([
  ...["object", "created", "created_at", "system_fingerprint", "service_tier", "obfuscation", "event", "event_type"],
  ...["provider", "usage", "usageMetadata", "modelVersion", "responseId", "response_id", "item_id", "generation_id"],
  ...["conversation_id", "request_id", "done_reason", "context", "details", "error", "x_groq", "prompt_token_ids"],
  ...["prompt_filter_results", "content_filter_results", "meta_info", "response", "p"],
]);

/** Whether an event of this type, in OpenAI's responses API, repeats the text of earlier `delta` events. */
export function repeatsText(eventType: string): boolean {
  return eventType.startsWith("response.") && !eventType.endsWith(".delta");
}

/** The text of an event in members that no known API has. A server may put the text of its model there. */
function otherTextBytes(event: object): number {
  if ("type" in event && typeof event.type === "string" && event.type.startsWith("response.")) return 0;
  let bytes = 0;
  for (const [name, member] of Object.entries(event)) {
    if (!textMembers.has(name) && !metadataMembers.has(name) && !labels.has(name)) bytes += textBytes(member);
  }
  return bytes;
}

/** The text of an event in members for the text of a model; objects in `response` repeat it (OpenAI responses). */
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

/** Members of a choice or delta without text of the model, or with repeated text. */
const labels = new Set(["id", "type", "model", "role", "finish_reason", "stop_reason", "logprobs", "signature"]);

/**
 * The text of a value. Whole numbers in arrays are token ids of four bytes each. It does not recurse, since the nesting
 * of a provider's JSON is limited only by the line length.
 */
function textBytes(value: unknown): number {
  const pending = [value];
  let bytes = 0;
  while (pending.length > 0) {
    const next = pending.pop();
    if (typeof next === "string") bytes += Buffer.byteLength(next);
    if (typeof next !== "object" || next === null) continue;
    if (Array.isArray(next)) bytes += 4 * next.filter((element) => Number.isInteger(element)).length;
    for (const [name, member] of Object.entries(next)) if (!labels.has(name)) pending.push(member);
  }
  return bytes;
}

/** Parses a JSON object or array; undefined for any other text. */
function parseObject(text: string): object | undefined {
  if (text[0] !== "{" && text[0] !== "[") return undefined;
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}
