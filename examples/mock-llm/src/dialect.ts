/** Builds the completion that every dialect encodes: the text, cut to length, and its usage. */
import { cannedReplyTo, type Conversation, filler, promptTokens } from "./conversation.ts";
import { asNumber, asString, type JsonObject } from "./json.ts";
import type { Reply } from "./reply.ts";
import { type Usage, usageOf } from "./usage.ts";
import type { ReplyOptions } from "./reply-options.ts";

/** The path and the query of a request. */
export interface RequestTarget {
  readonly pathname: string;
  readonly query: URLSearchParams;
}

/** Builds the reply to a request in one dialect. `id` is different for each. */
export type Dialect = (body: JsonObject, options: ReplyOptions, id: number, target: RequestTarget) => Reply;

export interface Completion {
  readonly model: string;
  /** The text in tokens. */
  readonly pieces: readonly string[];
  readonly text: string;
  /** Whether it was cut at the client's `max_tokens`. */
  readonly isCut: boolean;
  readonly usage: Usage;
  /** Seconds since the epoch. */
  readonly created: number;
}

/** @param limit the dialect's name for the maximum number of output tokens */
export function complete(
  body: JsonObject,
  conversation: Conversation,
  limit: string,
  options: ReplyOptions,
): Completion {
  const wanted = options.words === undefined ? cannedReplyTo(conversation) : filler(options.words);
  const pieces = wanted.slice(0, asNumber(body[limit]));
  return {
    model: asString(body["model"]) ?? "mock-1",
    pieces,
    text: pieces.join(""),
    isCut: pieces.length < wanted.length,
    usage: usageOf(options, { prompt: promptTokens(conversation), completion: pieces.length }),
    created: Math.floor(Date.now() / 1_000),
  };
}
