/**
 * Reads the usage in the events of a server of OpenAI's realtime API, or of its responses API, over WebSocket. Each message is one
 * event: `response.done` has the usage of a response, `response.completed` and the like in the responses API, and
 * `conversation.item.input_audio_transcription.completed` that of a transcription
 * (https://platform.openai.com/docs/api-reference/realtime-server-events).
 */
import type { TokenUsage } from "../ir/usage.ts";
import { tokensOfText } from "./estimate.ts";
import { JsonMembers, type Member, memberPaths } from "./json-members.ts";
import { maxTokens, UsageTally } from "./usage.ts";
import type { MessageSink } from "./web-socket-frames.ts";

const paths = memberPaths("type", "delta", "usage", "response.usage", "response.model", "session.model");

/** Events that end a response, with its usage in `response.usage`. */
const endsOfResponse: ReadonlySet<unknown> = new Set([
  "response.done",
  "response.completed",
  "response.incomplete",
  "response.failed",
  "response.cancelled",
]);
const transcriptionEnd = "conversation.item.input_audio_transcription.completed";

/**
 * Base64 characters of an audio delta for each token of the output: a token is 50 ms, of 24,000 samples a second with two bytes each
 * (OpenAI, "Managing realtime costs").
 */
const audioCharactersPerToken = 3_200;

/** As `audioCharactersPerToken`, for the input: a token is 100 ms. */
const inputAudioCharactersPerToken = 6_400;

/**
 * Estimates the input that a client has sent in its events: bytes of text ÷ 4, and the audio of `input_audio_buffer.append` by its
 * duration.
 */
export class RealtimeInput implements MessageSink {
  #event: JsonMembers | undefined;
  #audioCharacters = 0;
  #textBytes = 0;
  #eventAudio = 0;

  /** The tokens since the last `reset`. */
  get tokens(): number {
    return tokensOfText(this.#textBytes) + Math.ceil(this.#audioCharacters / inputAudioCharactersPerToken);
  }

  /** The input so far has been reported. */
  reset(): void {
    this.#audioCharacters = 0;
    this.#textBytes = 0;
  }

  onPayload(part: Buffer): void {
    this.#event ??= new JsonMembers(audioPath, ({ after, valueStart }) => {
      this.#eventAudio = after - valueStart;
    });
    this.#event.push(part);
  }

  onMessageEnd(): void {
    this.#audioCharacters += this.#eventAudio;
    this.#textBytes += Math.max(0, (this.#event?.textBytes ?? 0) - this.#eventAudio);
    this.#event = undefined;
    this.#eventAudio = 0;
  }
}

const audioPath = memberPaths("audio");

/** The reader of the events of one session. `onUsage` is called with the usage of each response. No method throws. */
export class RealtimeUsage implements MessageSink {
  readonly #input: RealtimeInput;
  readonly #onUsage: (usage: TokenUsage) => void;
  #event: JsonMembers | undefined;
  #type: unknown;
  #deltaBytes = 0;
  #usage: unknown;
  #transcription: unknown;
  #model: unknown;
  #openResponses = 0;
  /** Of the responses that have begun and not ended. */
  #openTextBytes = 0;
  #openAudioCharacters = 0;
  /** The input of the last response: the conversation, which is the input of the next one. */
  #lastInput = 0;

  /** @param input what the client sends, for an estimate. */
  constructor(input: RealtimeInput, onUsage: (usage: TokenUsage) => void) {
    this.#input = input;
    this.#onUsage = onUsage;
  }

  /** Whether a response has begun, and its usage has not been read. */
  get hasOpenResponse(): boolean {
    return this.#openResponses > 0;
  }

  onPayload(part: Buffer): void {
    this.#event ??= new JsonMembers(paths, (member) => this.#report(member));
    this.#event.push(part);
  }

  #report({ path, value, after, valueStart }: Member): void {
    switch (path) {
      case "type":
        this.#type = parsed(value);
        break;
      case "delta":
        this.#deltaBytes = after - valueStart;
        break;
      case "usage":
        this.#transcription = parsed(value);
        break;
      case "response.usage":
        this.#usage = parsed(value);
        break;
      default:
        this.#model = parsed(value) ?? this.#model;
    }
  }

  onMessageEnd(): void {
    const type = this.#type;
    if (type === "response.created") this.#openResponses++;
    else if (endsOfResponse.has(type)) this.#endResponse();
    else if (type === transcriptionEnd) this.#charge(this.#transcription);
    else if (typeof type === "string" && type.endsWith(".delta")) this.#addDelta(type);
    this.#event = undefined;
    this.#type = undefined;
    this.#usage = undefined;
    this.#transcription = undefined;
    this.#deltaBytes = 0;
  }

  #endResponse(): void {
    const usage = this.#charge(this.#usage);
    if (usage === undefined) this.#chargeEstimate();
    else this.#lastInput = usage.input ?? this.#lastInput;
    // It is a part of the next input that is reported.
    this.#input.reset();
    this.#openResponses = Math.max(0, this.#openResponses - 1);
    this.#openTextBytes = 0;
    this.#openAudioCharacters = 0;
  }

  /** @returns undefined if there is no valid report. */
  #charge(report: unknown): TokenUsage | undefined {
    const tally = new UsageTally();
    tally.add(report ?? null);
    tally.setModel(this.#model);
    const outcome = tally.reported();
    if (outcome.kind === "uncounted") return undefined;
    if (outcome.usage.total > 0) this.#onUsage(outcome.usage);
    return outcome.usage;
  }

  #addDelta(type: string): void {
    if (type.endsWith("audio.delta")) this.#openAudioCharacters += this.#deltaBytes;
    else this.#openTextBytes += this.#deltaBytes;
  }

  /** Charges an estimate of the responses whose usage will not be read, since the session has been interrupted. */
  end(): void {
    if (this.#openResponses > 0) this.#chargeEstimate();
    this.#openResponses = 0;
  }

  #chargeEstimate(): void {
    const output = tokensOfText(this.#openTextBytes) + Math.ceil(this.#openAudioCharacters / audioCharactersPerToken);
    const tally = new UsageTally();
    tally.setModel(this.#model);
    const outcome = tally.estimated(this.#lastInput + this.#input.tokens, Math.min(maxTokens, output));
    if (outcome.kind === "counted" && outcome.usage.total > 0) this.#onUsage(outcome.usage);
  }
}

/** Returns undefined for a value that is not JSON, or that was too long to be kept. */
function parsed(value: Buffer | undefined): unknown {
  if (value === undefined) return undefined;
  try {
    return JSON.parse(value.toString()) as unknown;
  } catch {
    return undefined;
  }
}
