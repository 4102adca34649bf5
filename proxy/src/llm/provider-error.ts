/**
 * Reads the errors that providers report in bodies. Some send the head of a stream before they know whether they can
 * generate, so that its first event is the error: `event: error` of Anthropic ("Streaming messages", error events), a
 * data object with `error` of OpenAI, Gemini, vLLM and OpenRouter, a message of the type `exception` or `error` of
 * Amazon (Smithy 2.0, "Amazon Event Stream Specification"). `google.rpc.RetryInfo` in the body of a 429 is the only
 * place where Gemini says when its quota is reset.
 */
import { type EventStreamMessage, EventStreamReader } from "./event-stream.ts";

/** An error in a stream whose head was a success. */
export interface StreamedError {
  /** The status that the provider would have sent with this error as a whole response: 400 to 599. */
  readonly status: number;
  /** Milliseconds until the reset of the quota; undefined if the error does not say it. */
  readonly resetMs: number | undefined;
}

/**
 * Returns the error that is the first event of a stream of server-sent events.
 *
 * @param stream at least its first event.
 */
export function readErrorEvent(stream: Buffer): StreamedError | undefined {
  const lines = stream
    .toString()
    .replace(/^\uFEFF/, "")
    .split(/\r\n|[\r\n]/);
  let type: string | undefined;
  const data: string[] = [];
  for (const line of lines) {
    if (line === "" && data.length > 0) break;
    if (line === "") type = undefined;
    const [, name, value = ""] = /^(event|data)(?:: ?(.*))?$/s.exec(line) ?? [];
    if (name === "event") type = value;
    if (name === "data") data.push(value);
  }
  const value = parse(data.join("\n"));
  return errorIn(value) ?? (type === "error" ? { status: statusOf([]), resetMs: undefined } : undefined);
}

/**
 * Returns the error that is the first message of a binary stream of Amazon.
 *
 * @param stream at least its first message.
 */
export function readErrorMessage(stream: Buffer): StreamedError | undefined {
  const messages: EventStreamMessage["headers"][] = [];
  new EventStreamReader(({ headers }) => messages.push(headers)).push(stream);
  const [first] = messages;
  const type = first?.get(":message-type");
  if (type !== "exception" && type !== "error") return undefined;
  return { status: statusOf([first?.get(":exception-type"), first?.get(":error-code")]), resetMs: undefined };
}

/** Returns the time of `google.rpc.RetryInfo` in the body of an error, in milliseconds; undefined if there is none. */
export function readRetryDelay(body: string): number | undefined {
  return retryDelayOf(errorMember(parse(body)));
}

function parse(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return undefined;
  }
}

function errorIn(value: unknown): StreamedError | undefined {
  const error = errorMember(value);
  if (error === undefined) return undefined;
  const { code, status, type } = fieldsOf(error);
  return { status: statusOf([code, status, type]), resetMs: retryDelayOf(error) };
}

/**
 * Returns the error of a JSON text: its member `error`, or the text itself where its type says so (OpenAI's responses
 * API, vLLM). Gemini puts both into an array. `error: null` is none.
 */
function errorMember(value: unknown): unknown {
  const first: unknown = Array.isArray(value) ? (value as readonly unknown[])[0] : value;
  const { error, type, object } = fieldsOf(first);
  if (error !== undefined && error !== null && error !== "" && error !== false) return error;
  return type === "error" || object === "error" ? first : undefined;
}

function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? (value as Readonly<Record<string, unknown>>) : {};
}

/** Words of errors for which a client, its key or its request is to blame, so that each provider would send one. */
const clientErrors =
  /invalid|badrequest|validation|authenticat|unauthorized|permission|forbidden|accessdenied|notfound|toolarge|contextlength|contentfilter|failedprecondition|outofrange|unsupported/;
const quotaErrors = /ratelimit|toomanyrequests|resourceexhausted|throttl|quota/;

/** Returns the status of an error by its codes. One that is unknown is a failure of the provider. */
function statusOf(codes: readonly unknown[]): number {
  for (const code of codes) {
    const number = Number(typeof code === "string" || typeof code === "number" ? code : Number.NaN);
    if (Number.isInteger(number) && number >= 400 && number <= 599) return number;
  }
  const words = codes
    .filter((code) => typeof code === "string")
    .map((code) => code.toLowerCase().replace(/[^a-z]/g, ""));
  if (words.some((word) => quotaErrors.test(word))) return 429;
  return words.some((word) => clientErrors.test(word)) ? 400 : 500;
}

function retryDelayOf(error: unknown): number | undefined {
  const { details } = fieldsOf(error);
  if (!Array.isArray(details)) return undefined;
  for (const detail of details as readonly unknown[]) {
    const { "@type": type, retryDelay } = fieldsOf(detail);
    if (type !== "type.googleapis.com/google.rpc.RetryInfo" || typeof retryDelay !== "string") continue;
    // A Duration in JSON (ProtoJSON): seconds with up to nine digits behind the point.
    const [, seconds] = /^(\d{1,12}(?:\.\d{1,9})?)s$/.exec(retryDelay) ?? [];
    if (seconds !== undefined) return Number(seconds) * 1_000;
  }
  return undefined;
}
