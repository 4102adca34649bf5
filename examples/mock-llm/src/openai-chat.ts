/** OpenAI chat completions, `POST /v1/chat/completions`, in one piece or streamed. */
import { conversationOf } from "./conversation.ts";
import { type Completion, complete, type Dialect } from "./dialect.ts";
import { asObject, type JsonObject } from "./json.ts";
import { event } from "./reply.ts";
import { usageMember } from "./usage.ts";

export const chatCompletions: Dialect = (body, options, id) => {
  const limit = body["max_completion_tokens"] === undefined ? "max_tokens" : "max_completion_tokens";
  const completion = complete(body, conversationOf(body["messages"]), limit, options);
  const head = { id: `chatcmpl-mock-${id}`, created: completion.created, model: completion.model };
  const usage = usageMember(figuresOf(completion), options.usageFault);
  if (body["stream"] === true) return { kind: "events", events: [...streamed(head, completion, usage, body)] };
  const message = { role: "assistant", content: completion.text, refusal: null };
  const choice = { index: 0, message, logprobs: null, finish_reason: finishReason(completion) };
  return { kind: "json", status: 200, body: { ...head, object: "chat.completion", choices: [choice], ...usage } };
};

/** Streams report usage only on request: in one more event at the end, and as `null` in all others. */
function* streamed(head: object, completion: Completion, usage: object, body: JsonObject): Iterable<string> {
  const isAsked = asObject(body["stream_options"])["include_usage"] === true;
  const chunk = (delta: object, finish_reason: string | null) =>
    event({
      ...head,
      object: "chat.completion.chunk",
      choices: [{ index: 0, delta, logprobs: null, finish_reason }],
      ...(isAsked && { usage: null }),
    });
  yield chunk({ role: "assistant", content: "" }, null);
  for (const content of completion.pieces) yield chunk({ content }, null);
  yield chunk({}, finishReason(completion));
  if (isAsked) yield event({ ...head, object: "chat.completion.chunk", choices: [], ...usage });
  yield "data: [DONE]\n\n";
}

function figuresOf({ usage }: Completion): object {
  return { prompt_tokens: usage.prompt, completion_tokens: usage.completion, total_tokens: usage.total };
}

function finishReason({ isCut }: Completion): string {
  return isCut ? "length" : "stop";
}
