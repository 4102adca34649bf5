/** Parses the `x-mock-*` headers of a request, so that every case can be tried with curl (README.md). */
import type { IncomingHttpHeaders } from "node:http";

/** Invalid usages; `none` leaves it out. */
export const usageFaults = ["none", "null", "negative", "fraction", "string", "huge"] as const;
export type UsageFault = (typeof usageFaults)[number];

export const encodings = ["gzip", "deflate", "br", "zstd"] as const;
export type Encoding = (typeof encodings)[number];

/** Each is undefined without its header. */
export interface ReplyOptions {
  readonly promptTokens: number | undefined;
  readonly completionTokens: number | undefined;
  readonly totalTokens: number | undefined;
  readonly usageFault: UsageFault | undefined;
  /** Length of the text in tokens. */
  readonly words: number | undefined;
  /** Pause before each event of a stream, or before a whole response. */
  readonly delayMs: number | undefined;
  readonly encoding: Encoding | undefined;
  /** Closes the connection after this many events, or in the middle of a whole response. */
  readonly abortAfter: number | undefined;
  /** Status of an error response. */
  readonly status: number | undefined;
  /** `Retry-After` of an error response, in seconds. */
  readonly retryAfter: number | undefined;
  /** Pause before the head of the response. */
  readonly firstByteMs: number | undefined;
  /** The requests that remain of a budget, in the fields of OpenAI; its reset is after `retryAfter` seconds. */
  readonly remaining: number | undefined;
}

const prefix = "x-mock-";

/** The headers that every request gets without its own: those of `PUT /mock/behavior`. */
export type Behavior = Readonly<Record<string, string>>;

/** Parses a behavior: the headers without `x-mock-`, as members of an object. @throws InvalidReplyOption */
export function readBehavior(members: Readonly<Record<string, unknown>>): Behavior {
  const headers = Object.fromEntries(
    Object.entries(members).map(([name, value]) => [`${prefix}${name}`, String(value)] as const),
  );
  const unknown = Object.keys(headers).find((name) => !optionNames.has(name));
  if (unknown !== undefined) {
    const accepted = Array.from(optionNames, (name) => name.slice(prefix.length)).join(", ");
    throw new InvalidReplyOption(`${unknown.slice(prefix.length)} is no behavior, accepted are ${accepted}`);
  }
  readReplyOptions(headers);
  return headers;
}

const optionNames: ReadonlySet<string> = new Set(
  [
    ...["prompt-tokens", "completion-tokens", "total-tokens", "usage", "words", "delay-ms", "encoding", "abort-after"],
    ...["status", "retry-after", "first-byte-ms", "remaining"],
  ].map((name) => `${prefix}${name}`),
);

/** Parses the headers of a request. @throws InvalidReplyOption with the header and the accepted values */
export function readReplyOptions(headers: IncomingHttpHeaders): ReplyOptions {
  const number = (name: string, min: number, max: number) => readNumber(headers, `x-mock-${name}`, min, max);
  return {
    promptTokens: number("prompt-tokens", 0, 1e9),
    completionTokens: number("completion-tokens", 0, 1e9),
    totalTokens: number("total-tokens", 0, 1e9),
    usageFault: readWord(headers, "x-mock-usage", usageFaults),
    words: number("words", 0, 100_000),
    delayMs: number("delay-ms", 0, 60_000),
    encoding: readWord(headers, "x-mock-encoding", encodings),
    abortAfter: number("abort-after", 0, 100_000),
    status: number("status", 400, 599),
    retryAfter: number("retry-after", 0, 86_400),
    firstByteMs: number("first-byte-ms", 0, 60_000),
    remaining: number("remaining", 0, 1e9),
  };
}

/** An invalid value of a header. */
export class InvalidReplyOption extends Error {}

function readNumber(headers: IncomingHttpHeaders, name: string, min: number, max: number): number | undefined {
  const text = headers[name]?.toString();
  if (text === undefined) return undefined;
  const value = Number(text);
  if (text !== "" && Number.isInteger(value) && value >= min && value <= max) return value;
  throw new InvalidReplyOption(`${name} is "${text}", accepted is a whole number from ${min} to ${max}`);
}

function readWord<T extends string>(headers: IncomingHttpHeaders, name: string, words: readonly T[]): T | undefined {
  const text = headers[name]?.toString();
  if (text === undefined) return undefined;
  const word = words.find((each) => each === text);
  if (word === undefined) throw new InvalidReplyOption(`${name} is "${text}", accepted is one of ${words.join(", ")}`);
  return word;
}
