/** The parts of a request that are tokens of its prompt, in the APIs of OpenAI: chat completions, responses, completions, embeddings. */

/** The prompt of a request. */
export interface PromptText {
  readonly texts: readonly string[];
  /** Tokens of lists of token ids, and of the marks around messages. */
  readonly tokens: number;
  /** Base64 and addresses of images, audio and files. */
  readonly mediaBytes: number;
}

/** Members with texts of messages. */
const textMembers = ["messages", "input", "instructions", "prompt", "suffix"];
/** Members that the provider renders for the model, in an unknown form that is no longer than their JSON. */
const schemaMembers = ["tools", "functions", "response_format", "text"];
/** Members of parts that hold images, audio or files. */
const mediaMembers: ReadonlySet<string> = new Set(["image_url", "url", "data", "file_data", "file_url", "result"]);
/** Members of messages that are no text of the prompt. */
const labels: ReadonlySet<string> = new Set(["type", "id", "tool_call_id", "call_id", "status", "detail", "format"]);

/** OpenAI documents 3 tokens for each message and 1 for its name (models before 2023-06: 4), and 3 before the response. */
const tokensOfMessage = 4;
const tokensOfResponse = 3;

/** Reads a parsed body; undefined for one that is no object. It does not recurse, since clients choose the nesting. */
export function promptTextOf(body: unknown): PromptText | undefined {
  if (typeof body !== "object" || body === null || Array.isArray(body)) return undefined;
  const members = new Map<string, unknown>(Object.entries(body));
  const texts: string[] = [];
  let tokens = tokensOfResponse;
  let mediaBytes = 0;
  const pending: unknown[] = [];
  for (const name of textMembers) {
    const value = members.get(name);
    if (Array.isArray(value)) tokens += tokensOfMessage * value.filter((each) => typeof each === "object").length;
    pending.push(value);
  }
  for (const name of schemaMembers) {
    const value = members.get(name);
    if (value !== undefined && value !== null) texts.push(JSON.stringify(value));
  }
  while (pending.length > 0) {
    const value = pending.pop();
    if (typeof value === "string") {
      texts.push(value);
    } else if (typeof value === "number") {
      tokens++;
    } else if (Array.isArray(value)) {
      for (const each of value) pending.push(each);
    } else if (typeof value === "object" && value !== null) {
      for (const [name, member] of Object.entries(value)) {
        if (labels.has(name)) continue;
        if (typeof member === "string" && mediaMembers.has(name)) mediaBytes += Buffer.byteLength(member);
        else pending.push(member);
      }
    }
  }
  return { texts, tokens, mediaBytes };
}
