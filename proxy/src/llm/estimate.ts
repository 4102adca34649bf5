/**
 * What a stream has cost so far when its reader leaves before the upstream has told: the text that was streamed, at four
 * bytes a token. The JSON around each piece of text is ten times as long as the text, so it must not count.
 */

/** Tokens of `textBytes` of text, rounded up; at least 1, for an answer that has begun has cost something. */
export function tokensOfText(textBytes: number): number {
  return Math.max(1, Math.ceil(textBytes / 4));
}

/** UTF-8 bytes of the text in the events of a part of a stream. Events that are not whole count nothing. */
export function streamedTextBytes(events: Buffer): number {
  let bytes = 0;
  for (const line of events.toString().split("\n")) {
    if (line.startsWith("data:")) bytes += eventTextBytes(parseJson(line.slice("data:".length)));
  }
  return bytes;
}

/**
 * What the model wrote stands in `choices` (OpenAI chat) or in `delta` (OpenAI responses, where it is the text itself,
 * and Anthropic). Everything else that an event says is short, or repeats what was streamed before.
 */
function eventTextBytes(event: unknown): number {
  if (typeof event !== "object" || event === null) return 0;
  const choices = "choices" in event ? textBytes(event.choices) : 0;
  const delta = "delta" in event ? textBytes(event.delta) : 0;
  return choices + delta;
}

/** Members of a choice or a delta that are no text of the model, or repeat it. */
const labels = new Set(["id", "type", "role", "name", "finish_reason", "stop_reason", "logprobs", "signature"]);

function textBytes(value: unknown): number {
  if (typeof value === "string") return Buffer.byteLength(value);
  if (typeof value !== "object" || value === null) return 0;
  let bytes = 0;
  for (const [name, member] of Object.entries(value)) {
    if (!labels.has(name)) bytes += textBytes(member);
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
