/**
 * The parts of a request that are tokens of its prompt, in the APIs of OpenAI: chat completions, responses,
 * completions, embeddings.
 */

/** The prompt of a request. */
export interface PromptText {
  readonly texts: readonly string[];
  /** Tokens of lists of token ids, and of the marks around messages. */
  readonly tokens: number;
  /** Base64 and addresses of images, audio and files. */
  readonly mediaBytes: number;
}

/** Members with texts of messages. */
const textMembers: ReadonlySet<string> = new Set(["messages", "input", "instructions", "prompt", "suffix"]);
/**
 * Longer members may be rendered for the model, in an unknown form that is no longer than their JSON: tools, schemas,
 * documents, and templates of the client.
 */
const maxSettingLength = 64;
/** Members of parts that hold images, audio or files. */
const mediaMembers: ReadonlySet<string> = new Set(["image_url", "url", "data", "file_data", "file_url", "result"]);
/** Members of messages that are no text of the prompt, if they are short. */
const labels: ReadonlySet<string> = new Set(["type", "id", "tool_call_id", "call_id", "status", "detail", "format"]);

/**
 * OpenAI documents 3 tokens for each message and 1 for its name (models before 2023-06: 4), and 3 before the response.
 */
const tokensOfMessage = 4;
const tokensOfResponse = 3;

/**
 * Reads a parsed body; undefined for one that is no object. Messages are read without recursion, since clients choose
 * the nesting; other members are rendered as JSON, which throws if they are nested too deep.
 */
export function promptTextOf(body: unknown): PromptText | undefined {
  if (typeof body !== "object" || body === null || Array.isArray(body)) return undefined;
  const members: readonly (readonly [string, unknown])[] = Object.entries(body);
  const texts: string[] = [];
  let tokens = tokensOfResponse;
  let mediaBytes = 0;
  const pending: unknown[] = [];
  for (const [name, value] of members) {
    if (!textMembers.has(name)) {
      if (!isSetting(value)) texts.push(JSON.stringify(value));
      continue;
    }
    if (Array.isArray(value)) tokens += tokensOfMessage * value.filter((each) => typeof each === "object").length;
    pending.push(value);
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
        if (labels.has(name) && isSetting(member)) continue;
        if (typeof member === "string" && mediaMembers.has(name)) mediaBytes += Buffer.byteLength(member);
        else pending.push(member);
      }
    }
  }
  return { texts, tokens, mediaBytes };
}

/** Whether a value is too short to be a text of the prompt. */
function isSetting(value: unknown): boolean {
  return typeof value === "string" ? value.length <= maxSettingLength : typeof value !== "object" || value === null;
}
