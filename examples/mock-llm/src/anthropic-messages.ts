/** Anthropic messages, `POST /v1/messages`, in one piece or streamed. */
import { conversationOf } from "./conversation.ts";
import { type Completion, complete, type Dialect } from "./dialect.ts";
import { typedEvent } from "./reply.ts";
import { usageMember } from "./usage.ts";
import type { UsageFault } from "./reply-options.ts";

export const messages: Dialect = (body, options, id) => {
  const completion = complete(body, conversationOf(body["messages"], body["system"]), "max_tokens", options);
  const { prompt, completion: output } = completion.usage;
  const begun = {
    id: `msg_mock_${id}`,
    type: "message",
    role: "assistant",
    model: completion.model,
    content: [],
    stop_reason: null,
    stop_sequence: null,
  };
  if (body["stream"] === true) return { kind: "events", events: [...streamed(begun, completion, options.usageFault)] };
  const ended = { content: [{ type: "text", text: completion.text }], stop_reason: stopReason(completion) };
  const usage = usageMember({ input_tokens: prompt, output_tokens: output }, options.usageFault);
  return { kind: "json", status: 200, body: { ...begun, ...ended, ...usage } };
};

/** The first event reports the input tokens, the last one the output tokens. */
function* streamed(begun: object, completion: Completion, fault: UsageFault | undefined): Iterable<string> {
  const { prompt, completion: output } = completion.usage;
  const opening = usageMember({ input_tokens: prompt, output_tokens: 1 }, fault);
  const closing = usageMember({ output_tokens: output }, fault);
  yield typedEvent({ type: "message_start", message: { ...begun, ...opening } });
  yield typedEvent({ type: "content_block_start", index: 0, content_block: { type: "text", text: "" } });
  yield typedEvent({ type: "ping" });
  for (const text of completion.pieces) {
    yield typedEvent({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text } });
  }
  yield typedEvent({ type: "content_block_stop", index: 0 });
  const delta = { stop_reason: stopReason(completion), stop_sequence: null };
  yield typedEvent({ type: "message_delta", delta, ...closing });
  yield typedEvent({ type: "message_stop" });
}

function stopReason({ isCut }: Completion): string {
  return isCut ? "max_tokens" : "end_turn";
}
