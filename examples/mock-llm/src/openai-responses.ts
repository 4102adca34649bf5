/** OpenAI's responses API, `POST /v1/responses`, in one piece or streamed. */
import { conversationOf } from "./conversation.ts";
import { type Completion, complete, type Dialect } from "./dialect.ts";
import type { JsonObject } from "./json.ts";
import { type TypedData, typedEvent } from "./reply.ts";
import { usageMember } from "./usage.ts";

export const responses: Dialect = (body, options, id) => {
  const conversation = conversationOf(body["input"], body["instructions"]);
  const completion = complete(body, conversation, "max_output_tokens", options);
  const usage = usageMember(figuresOf(completion), options.usageFault);
  const begun = responseBody(body, completion, id);
  const ended = { ...begun, status: completion.isCut ? "incomplete" : "completed", output: [message(completion, id)] };
  const response = {
    ...ended,
    ...(completion.isCut && { incomplete_details: { reason: "max_output_tokens" } }),
    ...usage,
  };
  if (body["stream"] !== true) return { kind: "json", status: 200, body: response };
  const events = [...streamed({ ...begun, usage: null }, response, completion, id)];
  return { kind: "events", events: events.map((data, number) => typedEvent({ ...data, sequence_number: number })) };
};

function* streamed(begun: object, ended: { status: string }, completion: Completion, id: number): Iterable<TypedData> {
  const item = message(completion, id);
  const part = { item_id: item.id, output_index: 0, content_index: 0 };
  const emptyText = { type: "output_text", text: "", annotations: [] };
  yield { type: "response.created", response: begun };
  yield { type: "response.in_progress", response: begun };
  yield { type: "response.output_item.added", output_index: 0, item: { ...item, status: "in_progress", content: [] } };
  yield { type: "response.content_part.added", ...part, part: emptyText };
  for (const delta of completion.pieces) yield { type: "response.output_text.delta", ...part, delta, logprobs: [] };
  yield { type: "response.output_text.done", ...part, text: completion.text, logprobs: [] };
  yield { type: "response.content_part.done", ...part, part: { ...emptyText, text: completion.text } };
  yield { type: "response.output_item.done", output_index: 0, item };
  yield { type: `response.${ended.status}`, response: ended };
}

/** The response before its first word; it repeats the client's parameters. */
function responseBody(body: JsonObject, { created, model }: Completion, id: number) {
  return {
    id: `resp_mock_${id}`,
    object: "response",
    created_at: created,
    status: "in_progress",
    error: null,
    incomplete_details: null,
    instructions: body["instructions"] ?? null,
    model,
    output: [],
    parallel_tool_calls: true,
    temperature: body["temperature"] ?? 1,
    tool_choice: body["tool_choice"] ?? "auto",
    tools: body["tools"] ?? [],
    top_p: body["top_p"] ?? 1,
    metadata: body["metadata"] ?? {},
  };
}

function message({ text, isCut }: Completion, id: number) {
  return {
    id: `msg_mock_${id}`,
    type: "message",
    role: "assistant",
    status: isCut ? "incomplete" : "completed",
    content: [{ type: "output_text", text, annotations: [] }],
  };
}

function figuresOf({ usage }: Completion): object {
  return {
    input_tokens: usage.prompt,
    input_tokens_details: { cached_tokens: 0 },
    output_tokens: usage.completion,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: usage.total,
  };
}
