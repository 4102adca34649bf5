/** Selects a canned reply for a conversation, and counts tokens about as a real model would. */

import { asArray, asObject, textOf } from "./json.ts";

/** The content of a request, in any dialect. */
export interface Conversation {
  /** All text that the client sent, for counting. */
  readonly prompt: string;
  readonly messageCount: number;
  /** The last message, which selects the reply. */
  readonly question: string;
}

/** @param messages a list of `{role, content}`, or a single text as the responses API allows */
export function conversationOf(messages: unknown, instructions?: unknown): Conversation {
  const texts =
    typeof messages === "string" ? [messages] : asArray(messages).map((each) => textOf(asObject(each)["content"]));
  return {
    prompt: [textOf(instructions), ...texts].join("\n"),
    messageCount: texts.length,
    question: texts.at(-1) ?? "",
  };
}

interface CannedReply {
  readonly topic: RegExp;
  readonly text: string;
}

/** The first reply whose topic is in the question is used; the last one matches everything. */
const cannedReplies: readonly CannedReply[] = [
  {
    topic: /\bstream/i,
    text: `Streaming changes how a response arrives, not what it costs. I write word by word, each in an event of its own, \
and only the last event says how many tokens it all came to. So a gateway cannot know the price while I am still \
talking. A good one lets me finish, reads the figure at the end, and holds it against your next request. Cutting me \
off in the middle of a sentence would cost you just as much, and you would have nothing to show for it.`,
  },
  {
    topic: /\b(token|budget)/i,
    text: `A token is a piece of a word: four letters or so of English. What you send counts and what I write counts, \
which is why a long conversation costs more with every turn, even if you only say "go on". A budget of a thousand tokens \
a minute is about three pages. When a response goes over the edge you still get all of it; it is the next request that \
has to wait until the minute is over. Then the whole budget is there again, and no one has to do anything for it.`,
  },
  {
    topic: /\b(limit|429|too many|gateway|proxy)/i,
    text: `A rate limit is a promise in two directions. You may send ten requests a minute, with five more in hand for a \
burst; and everyone who shares the model with you may rely on your not sending more. The polite way to keep it is to say \
where you stand before you run into it: how much you have, how much is left, and in how many seconds it starts again. \
When you do run into it, you get a plain 429 at once instead of a slow failure later. Wait the seconds that it names, \
and carry on where you were.`,
  },
  {
    topic: /\b(hello|hi|hey|good (morning|evening))\b/i,
    text: `Hello! I am a mock of a language model. I know only a few texts by heart, but I can give them in every way that \
the real ones do: in one piece or word by word, compressed or not, and with whatever usage you would like me to report. \
Ask me about rate limits, about tokens or about streaming, and keep asking until the gateway in front of us says that it \
is enough for this minute. That is what I am here for.`,
  },
  {
    topic: /(?:)/,
    text: `That is a fine question, and a real model would know what to say. I am a mock, so I shall tell you something \
that I do know. Every text that I write is counted in tokens, like this one, and the gateway between us adds them up. \
Once the budget is used up it stops asking me and lets you know, which takes it less than a millisecond and costs no one \
anything. Ask me about rate limits, tokens or streaming if you would like to hear more.`,
  },
];

/** Returns the reply to the question, in tokens. */
export function cannedReplyTo({ question }: Conversation): readonly string[] {
  const reply = cannedReplies.find(({ topic }) => topic.test(question));
  return pieces(reply?.text ?? "");
}

/** Returns a text of `count` tokens. */
export function filler(count: number): readonly string[] {
  return Array.from({ length: count }, (_, i) => (i === 0 ? "word" : " word"));
}

/** Splits a text into tokens, which join to the same text: words and marks, each with the space before it. */
export function pieces(text: string): readonly string[] {
  return text.match(/\s*(?:[\p{L}\p{N}']{1,8}|[^\s\p{L}\p{N}'])|\s+$/gu) ?? [];
}

/** Counts the tokens of the prompt: those of the text, and four for each message. */
export function promptTokens({ prompt, messageCount }: Conversation): number {
  return pieces(prompt).length + 4 * messageCount;
}
