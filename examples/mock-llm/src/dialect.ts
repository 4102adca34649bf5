/** What every dialect makes of a request: an answer, cut to length, and its price. The dialects only say it differently. */
import { answerTo, type Conversation, filler, promptTokens } from "./conversation.ts";
import { asNumber, asString, type JsonObject } from "./json.ts";
import type { Reply } from "./reply.ts";
import { type Usage, usageOf } from "./usage.ts";
import type { Wishes } from "./wishes.ts";

/** Answers a request in one dialect. `id` is new for each. */
export type Dialect = (body: JsonObject, wishes: Wishes, id: number) => Reply;

export interface Completion {
  readonly model: string;
  /** The answer in tokens. */
  readonly pieces: readonly string[];
  readonly text: string;
  /** It was cut at the client's `max_tokens`. */
  readonly isCut: boolean;
  readonly usage: Usage;
  /** Seconds since the epoch. */
  readonly created: number;
}

/** @param limit the dialect's name for the largest number of tokens to answer with */
export function complete(body: JsonObject, conversation: Conversation, limit: string, wishes: Wishes): Completion {
  const wanted = wishes.words === undefined ? answerTo(conversation) : filler(wishes.words);
  const pieces = wanted.slice(0, asNumber(body[limit]));
  return {
    model: asString(body["model"]) ?? "mock-1",
    pieces,
    text: pieces.join(""),
    isCut: pieces.length < wanted.length,
    usage: usageOf(wishes, { prompt: promptTokens(conversation), completion: pieces.length }),
    created: Math.floor(Date.now() / 1_000),
  };
}
