/**
 * Gemini, `POST /v1beta/models/NAME:generateContent` and `:streamGenerateContent`, which streams events with `?alt=sse`
 * and otherwise a JSON array.
 */
import { type Conversation, conversationOf } from "./conversation.ts";
import { type Completion, complete, type Dialect, type RequestTarget } from "./dialect.ts";
import { asArray, asObject, asString, type JsonObject } from "./json.ts";
import { event } from "./reply.ts";
import { usageMember } from "./usage.ts";

export const generateContent: Dialect = (body, options, id, target) => {
  const completion = completionOf(body, options, target);
  const part = partOf(completion.text, completion, id);
  const usage = usageMember(figuresOf(completion), options.usageFault, "usageMetadata");
  return { kind: "json", status: 200, body: { ...part, ...usage } };
};

export const streamGenerateContent: Dialect = (body, options, id, target) => {
  const completion = completionOf(body, options, target);
  const input = { promptTokenCount: completion.usage.prompt, totalTokenCount: completion.usage.prompt };
  const last = completion.pieces.length - 1;
  const parts = completion.pieces.map((piece, at) => ({
    ...partOf(piece, completion, id, at === last),
    ...usageMember(at === last ? figuresOf(completion) : input, options.usageFault, "usageMetadata"),
  }));
  if (target.query.get("alt") === "sse") return { kind: "events", events: parts.map(event) };
  const items = parts.map((part, at) => `${at === 0 ? "[" : ",\r\n"}${JSON.stringify(part, undefined, 2)}`);
  return { kind: "events", contentType: "application/json; charset=UTF-8", events: [...items, "]"] };
};

function completionOf(
  body: JsonObject,
  options: Parameters<typeof complete>[3],
  { pathname }: RequestTarget,
): Completion {
  const model = decodeURIComponent(/\/models\/([^/:]+):\w+$/.exec(pathname)?.[1] ?? "");
  const { maxOutputTokens } = asObject(body["generationConfig"]);
  return complete({ model, maxOutputTokens }, conversationIn(body), "maxOutputTokens", options);
}

/** The parts of a content have no type. */
function conversationIn(body: JsonObject): Conversation {
  const textOfParts = (content: unknown) =>
    asArray(asObject(content)["parts"])
      .map((part) => asString(asObject(part)["text"]) ?? "")
      .join("\n");
  const messages = asArray(body["contents"]).map((content) => ({ content: textOfParts(content) }));
  return conversationOf(messages, textOfParts(body["systemInstruction"]));
}

function partOf(text: string, { model, isCut }: Completion, id: number, isLast = true): object {
  const finish = isLast ? { finishReason: isCut ? "MAX_TOKENS" : "STOP" } : {};
  const candidate = { content: { parts: [{ text }], role: "model" }, ...finish, index: 0 };
  return { candidates: [candidate], modelVersion: model, responseId: `mock-${id}` };
}

function figuresOf({ usage }: Completion): object {
  return { promptTokenCount: usage.prompt, candidatesTokenCount: usage.completion, totalTokenCount: usage.total };
}
