/**
 * Amazon Bedrock, `POST /model/NAME/converse`, `converse-stream`, `invoke` and `invoke-with-response-stream`.
 * Invocations take and give the messages of Anthropic, as the models of Anthropic do.
 */
import { messageEvents, messages } from "./anthropic-messages.ts";
import { conversationOf } from "./conversation.ts";
import { type Completion, complete, type Dialect, type RequestTarget } from "./dialect.ts";
import { eventMessage, eventStreamType } from "./event-stream.ts";
import { asObject, type JsonObject } from "./json.ts";
import type { ReplyOptions } from "./reply-options.ts";
import { usageMember } from "./usage.ts";

export const converse: Dialect = (body, options, _id, target) => {
  const completion = converseCompletion(body, options, target);
  const message = { content: [{ text: completion.text }], role: "assistant" };
  const usage = usageMember(figuresOf(completion), options.usageFault);
  const reply = { metrics: { latencyMs: 1 }, output: { message }, stopReason: stopReason(completion), ...usage };
  return { kind: "json", status: 200, body: reply };
};

export const converseStream: Dialect = (body, options, _id, target) => {
  const completion = converseCompletion(body, options, target);
  const usage = usageMember(figuresOf(completion), options.usageFault);
  const events = [
    eventMessage("messageStart", { role: "assistant" }),
    ...completion.pieces.map((text) => eventMessage("contentBlockDelta", { contentBlockIndex: 0, delta: { text } })),
    eventMessage("contentBlockStop", { contentBlockIndex: 0 }),
    eventMessage("messageStop", { stopReason: stopReason(completion) }),
    eventMessage("metadata", { metrics: { latencyMs: 1 }, ...usage }),
  ];
  return { kind: "events", contentType: eventStreamType, events };
};

export const invoke: Dialect = (body, options, id, target) => {
  const request = { ...body, model: modelOf(target), stream: false };
  const reply = messages(request, options, id, target);
  if (reply.kind !== "json") return reply;
  const { prompt, completion } = completionOf(request, options).usage;
  return { ...reply, headers: tokenCounts(prompt, completion, options) };
};

export const invokeStream: Dialect = (body, options, id, target) => {
  const request = { ...body, model: modelOf(target) };
  const { prompt, completion } = completionOf(request, options).usage;
  const metrics = { inputTokenCount: prompt, outputTokenCount: completion, invocationLatency: 1, firstByteLatency: 1 };
  const reported = usageMember(metrics, options.usageFault, "amazon-bedrock-invocationMetrics");
  const events = messageEvents(request, options, id).map((data) => {
    const event = data.type === "message_stop" ? { ...data, ...reported } : data;
    return eventMessage("chunk", { bytes: Buffer.from(JSON.stringify(event)).toString("base64") });
  });
  return { kind: "events", contentType: eventStreamType, events };
};

function converseCompletion(body: JsonObject, options: ReplyOptions, target: RequestTarget): Completion {
  const { maxTokens } = asObject(body["inferenceConfig"]);
  const conversation = conversationOf(body["messages"], body["system"]);
  return complete({ model: modelOf(target), maxTokens }, conversation, "maxTokens", options);
}

function completionOf(body: JsonObject, options: ReplyOptions): Completion {
  return complete(body, conversationOf(body["messages"], body["system"]), "max_tokens", options);
}

function modelOf({ pathname }: RequestTarget): string {
  return decodeURIComponent(/\/model\/(.+)\/[\w-]+$/.exec(pathname)?.[1] ?? "");
}

function figuresOf({ usage }: Completion): object {
  return { inputTokens: usage.prompt, outputTokens: usage.completion, totalTokens: usage.total };
}

function stopReason({ isCut }: Completion): string {
  return isCut ? "max_tokens" : "end_turn";
}

function tokenCounts(prompt: number, completion: number, { usageFault }: ReplyOptions): Record<string, string> {
  if (usageFault !== undefined) return {};
  return {
    "x-amzn-bedrock-input-token-count": String(prompt),
    "x-amzn-bedrock-output-token-count": String(completion),
  };
}
