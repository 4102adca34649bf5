/** Anthropic messages, `POST /v1/messages`, in one piece or streamed. */
import { conversationOf } from "./conversation.ts";
import { type Completion, complete, type Dialect } from "./dialect.ts";
import type { JsonObject } from "./json.ts";
import { type TypedData, typedEvent } from "./reply.ts";
import { usageMember } from "./usage.ts";
import type { ReplyOptions, UsageFault } from "./reply-options.ts";

export const messages: Dialect = (body, options, id) => {
  if (body["stream"] === true) return { kind: "events", events: messageEvents(body, options, id).map(typedEvent) };
  const completion = completionOf(body, options);
  const { prompt, completion: output } = completion.usage;
  const ended = { content: [{ type: "text", text: completion.text }], stop_reason: stopReason(completion) };
  const usage = usageMember({ input_tokens: prompt, output_tokens: output }, options.usageFault);
  return { kind: "json", status: 200, body: { ...begunMessage(completion, id), ...ended, ...usage } };
};

/** Returns the data of the events of a streamed message. */
export function messageEvents(body: JsonObject, options: ReplyOptions, id: number): readonly TypedData[] {
  const completion = completionOf(body, options);
  return [...streamed(begunMessage(completion, id), completion, options.usageFault)];
}

function completionOf(body: JsonObject, options: ReplyOptions): Completion {
  return complete(body, conversationOf(body["messages"], body["system"]), "max_tokens", options);
}

function begunMessage({ model }: Completion, id: number): object {
  return {
    id: `msg_mock_${id}`,
    type: "message",
    role: "assistant",
    model,
    content: [],
    stop_reason: null,
    stop_sequence: null,
  };
}

/** The first event reports the input tokens, the last one the output tokens. */
function* streamed(begun: object, completion: Completion, fault: UsageFault | undefined): Iterable<TypedData> {
  const { prompt, completion: output } = completion.usage;
  const opening = usageMember({ input_tokens: prompt, output_tokens: 1 }, fault);
  const closing = usageMember({ output_tokens: output }, fault);
  yield { type: "message_start", message: { ...begun, ...opening } };
  yield { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } };
  yield { type: "ping" };
  for (const text of completion.pieces) {
    yield { type: "content_block_delta", index: 0, delta: { type: "text_delta", text } };
  }
  yield { type: "content_block_stop", index: 0 };
  const delta = { stop_reason: stopReason(completion), stop_sequence: null };
  yield { type: "message_delta", delta, ...closing };
  yield { type: "message_stop" };
}

function stopReason({ isCut }: Completion): string {
  return isCut ? "max_tokens" : "end_turn";
}
